"""Passes below what this machine can do, and their growth with the text."""
