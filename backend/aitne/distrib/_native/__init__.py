"""Compiled part of the training runtime: loops over shared memory that would be too slow in Python.

It is optional. Without it ``aitne.distrib.transport.shm`` uses PyTorch.
"""
