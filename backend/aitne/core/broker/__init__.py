"""Protocol between the platform and the broker."""
