"""The routes of ``/api/v1``, one module per noun. Thin: parse, call one service, present."""

V1 = "/api/v1"
"""Prefix of all routes. Each router has it as its own prefix, so that a route knows its whole
path."""
