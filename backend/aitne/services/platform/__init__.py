"""Use cases of the platform itself: maintenance, events, certificates, secrets, records of its state."""
