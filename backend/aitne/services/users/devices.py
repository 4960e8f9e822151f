"""Description of a browser from its headers, in words that its owner recognises."""

from __future__ import annotations

_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("aitne/", "Aitne's command line"),
    ("curl/", "curl"),
)
"""Browser names; the first match counts, because most browsers name their ancestors too."""
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def device_words(agent: str | None) -> str:
    """Return a name such as ``Firefox on Linux`` for a ``User-Agent`` header."""
    text = (agent or "")[:500]
    browser = next((words for mark, words in _BROWSERS if mark in text), None)
    system = next((words for mark, words in _SYSTEMS if mark in text), None)
    if browser is None:
        return system or "An unknown program"
    return browser if system is None else f"{browser} on {system}"
