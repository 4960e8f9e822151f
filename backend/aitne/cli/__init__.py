"""Floor 3: the command line."""
