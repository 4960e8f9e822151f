"""Upgrade of the platform on its host to the next release, and back if that one does not work.

``upgrade_steps`` runs the steps, ``upgrade_journal`` remembers the one in progress, so that the next run continues
or rolls back after an interruption. ``releases`` installs releases side by side and selects one,
``platform_service`` stops and starts the platform, ``upgrade_backups`` calls backup and restore.
"""
