"""How tensors travel between ranks: one file a way, one conformance suite for all."""
