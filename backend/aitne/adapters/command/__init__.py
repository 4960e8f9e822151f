"""Start of processes: as the platform's own account, or, in the broker, as any user's."""
