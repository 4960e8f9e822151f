"""Notebooks of the platform's users: their execution as jobs."""
