"""What Slurm's commands say, read: no process runs here."""
