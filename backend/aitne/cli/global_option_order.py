"""Position of global options, such as ``--url``, on the command line."""

from __future__ import annotations

from aitne.cli.command_table import GROUPS

GLOBAL = {"--url": True, "--data-dir": True, "--json": False}
"""Options that may also precede the command, and whether a value follows them."""


def move_global_options(argv: list[str]) -> list[str]:
    """Move global options that precede the command behind it, because each command parses them
    itself.

    ``--url U admin user ls`` becomes ``admin user ls --url U``. If only a group is named,
    ``--help`` is appended; the help of a group has no global options.
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
        elif not words or " ".join(words) in GROUPS:
            if rest[0].startswith("-"):
                break
            words.append(rest.pop(0))
        else:
            break
    group = GROUPS.get(" ".join(words))
    if group and not rest:
        return [*words, "--help"]
    if group and rest[0] in ("--help", "-h"):
        return [*words, *rest]
    return [*words, *moved, *rest]
