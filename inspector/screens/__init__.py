"""Screens and dialogs of the inspector."""
