"""``aitne dev cluster``: a real Slurm on this machine, to develop and test against.

``cluster.up`` starts it, ``cluster.down`` leaves nothing of it behind. Everything lies below one folder;
``aitne.core.platform.dev_cluster`` describes a running cluster to the rest of the platform.
"""
