"""The session file itself: format, opening untrusted ones, names, recovery, migration."""
