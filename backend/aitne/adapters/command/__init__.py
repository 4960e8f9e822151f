"""Starting processes: as the platform's own account, or (in the broker) as anybody's."""
