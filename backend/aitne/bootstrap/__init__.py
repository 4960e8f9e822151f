"""Wiring: the only place that chooses adapters and wires them to services."""
