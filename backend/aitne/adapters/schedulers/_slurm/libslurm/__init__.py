"""What the adapter ``pyslurm`` is made of."""
