"""The panes: each a pure function from a View to lines, in one file, listed in ``registry``."""
