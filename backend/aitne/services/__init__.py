"""Use cases of the platform. They reach outside systems only through the interfaces in
``core.ports``.
"""
