"""Floor 1: use cases over ports. Knows no adapter."""
