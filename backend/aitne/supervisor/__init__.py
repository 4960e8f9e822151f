"""Supervisor: `aitne up`, its children, their restarts and status."""
