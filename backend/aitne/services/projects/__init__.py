"""Use cases of projects: members, limits, usage, reports, and Slurm's accounts."""
