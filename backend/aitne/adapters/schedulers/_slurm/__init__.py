"""Pure parsers and mappings of Slurm's terms, shared by all adapters for Slurm."""
