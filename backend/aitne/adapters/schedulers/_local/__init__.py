"""Parts of the `local` scheduler."""
