"""Models and rules of the platform. Pure: no I/O, no clock, no randomness."""
