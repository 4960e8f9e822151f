"""Opening an address in the user's browser, where there is one."""

from __future__ import annotations

import os
import sys


def show(url: str) -> bool:
    """Open ``url`` if there is a display; return whether a browser was started."""
    graphical = (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if not graphical:
        return False
    import webbrowser

    return webbrowser.open(url)
