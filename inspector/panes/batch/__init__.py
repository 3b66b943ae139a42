"""Batched passes: who is in each, and what a pass costs by its rows."""
