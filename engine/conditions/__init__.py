"""Conditions over a run's figures: breakpoints, watches, assertions."""
