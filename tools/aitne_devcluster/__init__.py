"""Development cluster: ``aitne dev cluster`` runs a real Slurm on this machine, for development and
tests.

``cluster.start_cluster`` starts it, ``cluster.remove_cluster`` removes everything that was created for it. All its files
are below one folder; ``aitne.core.platform.dev_cluster_record`` describes a running cluster to the rest of
the platform.
"""
