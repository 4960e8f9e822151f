"""Use cases of the platform itself: health, maintenance, events, certificates, secrets."""
