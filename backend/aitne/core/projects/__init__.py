"""Rules of projects: settings, layers of limits, and differences from Slurm's accounts."""
