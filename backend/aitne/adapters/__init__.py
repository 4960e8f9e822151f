"""Adapters: one file per outside system, found by the registry."""
