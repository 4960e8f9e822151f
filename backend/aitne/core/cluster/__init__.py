"""Rules of the cluster: capacity, queues, forecasts, and settings of Slurm."""
