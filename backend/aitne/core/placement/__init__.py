"""Selection of nodes and GPUs for a job, and the mesh of its ranks."""
