"""The debugger's engine: it runs a model one forward pass at a time and records what happened."""
