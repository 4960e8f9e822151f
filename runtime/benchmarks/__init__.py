"""Benchmarks of the training runtime: ``python -m benchmarks allreduce`` runs one of them from the root
of the repository.
"""
