"""A run in other forms: JSON lines, one HTML page, a Markdown report, a CSV of its figures."""
