"""Use cases of sessions and terminals."""
