"""Ports: what the services need of outside systems, as Protocols. Adapters implement
them."""
