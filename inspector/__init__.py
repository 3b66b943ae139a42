"""The terminal inspector: the Textual app and the command line. Never imports torch."""
