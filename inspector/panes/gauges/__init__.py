"""Speed, memory and certainty over the run."""
