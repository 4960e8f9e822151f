"""The OpenAPI document of the API."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from aitne.api.openapi import render_document
from aitne.api.routes import bare_app


@cache
def openapi_text() -> str:
    """Return the document as it is stored; it is built once in a process."""
    return render_document(bare_app())


def openapi_document() -> dict[str, Any]:
    """Return the document as parsed JSON."""
    document: dict[str, Any] = json.loads(openapi_text())
    return document
