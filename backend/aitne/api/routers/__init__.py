"""Routes of ``/api/v1``, one module for each kind of object. They parse requests, call one service
each, and serialize the results."""

V1 = "/api/v1"
"""Path prefix of all routes. It is part of each router's own prefix, so that a route's ``path`` is
complete."""
