"""Floor 0: the nouns and rules of the platform. Pure: no I/O, no clock, no randomness."""
