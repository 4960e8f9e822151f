"""Readers of this machine's state: settings, folders, the process's own account, development
clusters.

``core`` performs no I/O; data that is needed before an adapter exists is read here.
"""
