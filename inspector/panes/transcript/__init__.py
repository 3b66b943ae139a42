"""The text so far, token by token."""
