"""Ports: what the services need of the outside, as Protocols. Adapters fulfil them (floor 1)."""
