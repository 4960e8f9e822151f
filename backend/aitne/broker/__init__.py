"""Broker: the small privileged process that runs commands and accesses files under users' accounts.

It is the only process that runs as root; the platform's own processes are unprivileged.
"""
