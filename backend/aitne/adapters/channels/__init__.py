"""What carries messages to people: one module is one channel."""
