"""Notebook extension that executes cells on the ranks of a rank group: ``%load_ext aitne.notebook``."""
