from __future__ import annotations

from tests.support.platform import platform

__all__ = ["platform"]
