"""Backups of the platform and their restoration."""
