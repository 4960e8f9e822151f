"""Who keeps the accounts."""
