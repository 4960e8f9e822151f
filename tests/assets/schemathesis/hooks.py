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


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Keep the token of all requests: with a new password, the access tokens may be deleted too."""
    if isinstance(case.body, dict) and case.body.get("delete_tokens") is True:
        case.body["delete_tokens"] = False
