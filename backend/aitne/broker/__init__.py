"""The small privileged process that acts as users. It alone is root; the platform is not."""
