"""Opening a web address in the user's browser, if the machine has a display."""

from __future__ import annotations

import os
import sys


def open_url(url: str) -> bool:
    """Open ``url`` in a browser and return True; return False if there is no display or no browser
    started."""
    graphical = (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if not graphical:
        return False
    import webbrowser

    return webbrowser.open(url)
