"""The parts of the `local` scheduler."""
