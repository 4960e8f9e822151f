"""Adapters: implementations of the ports in ``core.ports``, one module for each external system."""
