"""Construction of the platform's objects: the only package that selects adapters and passes them to
services.
"""
