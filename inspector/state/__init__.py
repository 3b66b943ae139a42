"""What the screen shows and what it asks of the engine; no widgets."""
