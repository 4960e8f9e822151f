"""Readers of this machine: settings, folders, the own account, development clusters.

``core`` performs no I/O; what must be read before an adapter exists is read here.
"""
