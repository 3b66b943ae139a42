"""A recording in a browser: ``replay FILE --web`` and ``tour --web``."""
