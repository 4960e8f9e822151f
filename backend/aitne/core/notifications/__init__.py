"""Rules of notifications: settings, and webhooks."""
