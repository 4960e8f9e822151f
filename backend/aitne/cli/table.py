"""The verbs and where each is defined; and where a command line's options belong."""

from __future__ import annotations

VERBS: dict[str, str] = {
    "up": "platform",
    "down": "platform",
    "status": "platform",
    "login": "login",
    "apply": "apply",
    "plan": "apply",
    "ps": "jobs",
    "logs": "jobs",
    "attach": "jobs",
    "stop": "jobs",
    "session": "session",
    "open": "session",
    "extend": "session",
    "template": "catalog",
    "node": "catalog",
    "admin": "admin",
}
"""In the order of the help: the module below ``commands`` that defines each."""

GROUPS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("session",): ("start", "ls"),
    ("template",): ("ls", "show"),
    ("node",): ("ls",),
    ("admin",): ("user", "token"),
    ("admin", "user"): ("ls", "create", "disable", "enable", "passwd"),
    ("admin", "token"): ("create", "ls", "revoke"),
}
"""Verbs of several words."""

GLOBAL = {"--url": True, "--data-dir": True, "--json": False}
"""The options that may stand before the verb too, and whether a value follows."""


def arrange(argv: list[str]) -> list[str]:
    """Move global options from before the verb to behind it, so that every verb finds its own.

    ``--url U admin user ls`` -> ``admin user ls --url U``. A group without its verb asks for help.
    """
    rest = list(argv)
    moved: list[str] = []
    words: list[str] = []
    while rest:
        name, equals, _ = rest[0].partition("=")
        if name in GLOBAL:
            taken = 2 if GLOBAL[name] and not equals else 1
            moved += rest[:taken]
            del rest[:taken]
        elif not words or tuple(words) in GROUPS:
            if rest[0].startswith("-"):
                break
            words.append(rest.pop(0))
        else:
            break
    if tuple(words) in GROUPS and not rest:
        return [*words, "--help"]
    return [*words, *moved, *rest]
