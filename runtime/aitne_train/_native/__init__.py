"""Compiled part of the training runtime: collectives over shared memory, in C, because their loops
would be too slow in Python.

It is optional and compiled at its first use. Without it ``aitne_train.transport.shm`` uses PyTorch.
"""
