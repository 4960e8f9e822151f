"""Ports: interfaces (``Protocol`` classes) through which the services use outside systems. Adapters
implement them.
"""
