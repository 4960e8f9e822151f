"""What the platform reads of this machine: settings, folders, accounts, development clusters.

``core`` performs no I/O; what must be read before an adapter exists is read here.
"""
