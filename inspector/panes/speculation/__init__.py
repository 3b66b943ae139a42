"""The pane of speculative rounds."""
