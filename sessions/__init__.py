"""Saved runs: one SQLite file each, its reader, exports and comparisons. Never imports torch."""
