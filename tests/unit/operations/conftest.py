"""A platform's data directory as `aitne up` leaves it, without processes."""

from __future__ import annotations

from tests.support.database import migrated

__all__ = ["migrated"]
