"""Adapters for the scheduler's accounting of projects, members and usage."""
