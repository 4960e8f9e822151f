"""Whole Debian machines on this one, for what needs several: Slurm on its nodes, monitoring, failures."""
