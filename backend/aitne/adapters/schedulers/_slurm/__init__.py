"""Parsers and conversions of Slurm's terms, shared by all adapters for Slurm."""
