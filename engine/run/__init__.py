"""One run as a tree of tokens, extended one forward pass at a time."""
