"""Description of a browser for its user, from the headers of its requests."""

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
"""Marks in a ``User-Agent`` header with browser names; the first match is used, because most
browsers also contain the marks of others.
"""
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def describe_browser(agent: str | None) -> str:
    """Return a description such as ``Firefox on Linux`` for a ``User-Agent`` header."""
    text = (agent or "")[:500]
    browser = next((words for mark, words in _BROWSERS if mark in text), None)
    system = next((words for mark, words in _SYSTEMS if mark in text), None)
    if browser is None:
        return system or "An unknown program"
    return browser if system is None else f"{browser} on {system}"
