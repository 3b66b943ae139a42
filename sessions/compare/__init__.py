"""Differences between two runs."""
