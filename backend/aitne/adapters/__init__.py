"""Floor 1: one file per outside system, found by the registry."""
