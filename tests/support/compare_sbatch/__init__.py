"""Comparison of batch scripts that run by sbatch and on the platform, on a development cluster."""
