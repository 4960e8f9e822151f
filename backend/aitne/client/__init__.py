"""Floor 1: the typed HTTP client, which is the Python SDK."""
