"""Use cases of notifications and announcements."""
