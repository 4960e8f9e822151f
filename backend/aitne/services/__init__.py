"""Services: use cases over ports. Knows no adapter."""
