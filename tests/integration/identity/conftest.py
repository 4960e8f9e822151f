from __future__ import annotations

from tests.support.stages import blank

__all__ = ["blank"]
