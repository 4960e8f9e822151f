"""Parts of the adapter ``pyslurm``."""
