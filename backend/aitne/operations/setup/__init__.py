"""``aitne admin setup``: inspects this machine and writes settings, units and the reverse proxy's files.

``answers`` has what an administrator decides, ``inspection`` what this machine and its Slurm are like,
``rendering`` the files that follow from the answers, and ``file_changes`` compares and writes them.
"""
