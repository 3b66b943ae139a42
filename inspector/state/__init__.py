"""State behind the screen, and its requests to the engine; no widgets."""
