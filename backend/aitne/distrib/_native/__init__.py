"""The compiled part of the training runtime: loops over shared memory that Python would be too slow for.

It is optional. Where it was not built, ``aitne.distrib.transport.shm`` does the same in PyTorch.
"""
