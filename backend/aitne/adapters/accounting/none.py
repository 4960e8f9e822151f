"""Adapter for sites without accounting: only the platform records projects and members."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NoReturn

from aitne.core.errors import NotSupported
from aitne.core.models.limits import LimitUsage, Usage
from aitne.core.ports.accounting import Associations, Change, JobEnergy


class NoAccounting:
    """Implementation of ``core.ports.accounting.Accounting`` for schedulers without accounting:
    every call raises ``NotSupported``.
    """

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler

    async def read_associations(self) -> Associations:
        """Raise ``NotSupported``: there is no accounting."""
        self._raise_not_supported()

    async def apply_changes(self, changes: Sequence[Change]) -> None:
        """Raise ``NotSupported``: there is no accounting."""
        self._raise_not_supported()

    async def read_usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        """Raise ``NotSupported``: there is no accounting."""
        self._raise_not_supported()

    async def read_energy(self, start: datetime, end: datetime) -> Sequence[JobEnergy]:
        """Raise ``NotSupported``: there is no accounting."""
        self._raise_not_supported()

    async def read_limit_usage(self) -> LimitUsage:
        """Raise ``NotSupported``: there is no accounting."""
        self._raise_not_supported()

    def _raise_not_supported(self) -> NoReturn:
        raise NotSupported(
            f"The scheduler {self._scheduler} has no accounting. Projects and their members work; "
            "limits and usage records need Slurm with slurmdbd."
        )
