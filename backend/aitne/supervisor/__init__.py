"""Supervisor: the process that `aitne up` starts, which starts the platform's processes and
restarts them when they end.
"""
