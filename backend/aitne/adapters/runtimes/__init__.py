"""Implementations of the port for container runtimes, one module for each."""
