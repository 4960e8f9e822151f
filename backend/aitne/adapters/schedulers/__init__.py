"""Adapters for schedulers, one file for each."""
