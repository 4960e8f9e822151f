"""Puts the built portal into the wheel, where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class InstallHook(BuildHookInterface):  # type: ignore[type-arg]
    """An sdist or an editable install needs no portal; a release wheel is built after `make up` or `npm run build`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add ``frontend/dist`` as ``aitne/_data/portal``."""
        portal = Path(self.root) / "frontend" / "dist"
        if version == "standard" and portal.is_dir():
            build_data["force_include"][str(portal)] = "aitne/_data/portal"
