"""HTTP API: its routes parse and authorize requests, call one service each, and serialize the
results."""
