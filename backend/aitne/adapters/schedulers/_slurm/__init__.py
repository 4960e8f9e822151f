"""What Slurm's words mean here: pure parsers and mappings, shared by every adapter that speaks to Slurm."""
