"""``admin``: commands for administrators, one module for each group."""

from __future__ import annotations

from aitne.cli.command_registry import OPERATE, group


@group("admin", OPERATE)
def admin() -> None:
    """Administer the platform: users, projects, nodes."""
