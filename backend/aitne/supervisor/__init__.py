"""Floor 3: `aitne up`, its children, their restarts and status."""
