"""Models: which one, where its files are, whether they may be trusted, how they are loaded."""
