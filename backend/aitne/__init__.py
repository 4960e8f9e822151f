"""Aitne: a multi-user, interactive machine-learning cluster platform."""

__version__ = "0.1.0"
