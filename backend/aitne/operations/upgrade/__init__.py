"""Upgrade of the platform on its host to the next release, and back if that one does not work.

``steps`` runs the steps, ``journal`` remembers the one in progress, so that the next run continues
or rolls back after an interruption. ``releases`` installs releases side by side and selects one,
``process`` stops and starts the platform, ``backups`` calls backup and restore.
"""
