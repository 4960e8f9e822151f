"""Hooks of schemathesis for this API."""

from __future__ import annotations

import gzip
from typing import Any

import schemathesis


@schemathesis.serializer("application/gzip")
def packed(ctx: Any, value: object) -> bytes:
    """A manifest travels packed."""
    data = value if isinstance(value, bytes) else str(value).encode()
    return gzip.compress(data)
