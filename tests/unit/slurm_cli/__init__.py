"""Tests of the parsers of Slurm's command output, without a process."""
