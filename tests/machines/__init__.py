"""Complete Debian machines on this host for tests that need several: Slurm, monitoring, failures."""
