"""How near passes come to what this machine can do, and how they grow with the text."""
