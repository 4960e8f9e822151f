"""Rules of storage: settings, and paths of the areas of an account."""
