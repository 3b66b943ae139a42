"""Sampling as a chain of pure stages over one step's candidates (numpy only, never torch)."""
