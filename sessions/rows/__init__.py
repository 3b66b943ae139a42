"""Records as rows of the file's tables, and back."""
