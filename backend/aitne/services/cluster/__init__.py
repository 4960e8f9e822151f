"""Use cases of the cluster: nodes, partitions and free GPUs."""
