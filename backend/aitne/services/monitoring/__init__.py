"""Use cases of monitoring: the health of the platform and the values of its metrics."""
