"""Implementations of the port for schedulers, one module for each."""
