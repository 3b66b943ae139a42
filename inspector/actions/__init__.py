"""Flows behind the app's keys, one a file."""
