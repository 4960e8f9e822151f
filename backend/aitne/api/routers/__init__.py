"""The routes of ``/api/v1``, one module per noun. Thin: parse, call one service, present."""

V1 = "/api/v1"
"""Path prefix of all routes. It is part of each router's own prefix, so that a route's ``path`` is
complete."""
