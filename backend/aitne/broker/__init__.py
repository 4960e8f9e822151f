"""Broker: the small privileged process that acts as users.

Only it runs as root; the platform does not.
"""
