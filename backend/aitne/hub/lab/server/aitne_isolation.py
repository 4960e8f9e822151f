"""Headers that keep pages of other origins away from a session's own.

Runs in the session's environment: Jupyter only; nothing else of this package is there.
"""

from __future__ import annotations

from typing import Any

HEADERS = {
    # A page that opened this one, or is opened by it, gets no hold of its window.
    "Cross-Origin-Opener-Policy": "same-origin",
    # And cannot load what is here as its image or script.
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    headers = server.web_app.settings.setdefault("headers", {})
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
