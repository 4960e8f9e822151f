"""Notification channels that deliver messages to users, one per module."""
