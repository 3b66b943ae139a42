"""Reading the prompt."""
