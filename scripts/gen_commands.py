"""Generate the table of commands from the modules below ``backend/aitne/cli/commands``.

Prints ``backend/aitne/cli/command_table.py``.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from formatting import format_source
from typer.main import get_command

from aitne.cli import commands
from aitne.cli.command_registry import ORDER, registered

HEAD = '''"""Commands of the command line. Written by ``scripts/gen_commands.py``: run ``make gen``."""

from __future__ import annotations

'''
COMMANDS = '''
"""By the words of the command line, in the order of the help: the module that defines the command
or group, its section of the help, and its summary. The help therefore imports none of them."""

'''
GROUPS = '''
"""The groups, and whether they need one of their commands."""
'''


def render_module() -> str:
    """Return the module before it is formatted."""
    for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
        import_module(module.name)
    places = {words: place for place, words in enumerate(ORDER)}
    table = {}
    groups: dict[str, bool] = {}
    for words in sorted(registered, key=lambda words: (places.get(words, len(places)), words)):
        parent = words.rpartition(" ")[0]
        if parent and parent not in registered:
            raise SystemExit(f"`aitne {words}`: there is no group `aitne {parent}`.")
        app, module, section = registered[words]
        defined = get_command(app)
        if not defined.help:
            raise SystemExit(f"`aitne {words}` in {module} has no docstring.")
        table[words] = (module, section, defined.help.splitlines()[0])
        groups.update(_list_groups(words, defined))
    return "".join(
        [
            f"{HEAD}COMMANDS: dict[str, tuple[str, str | None, str]] = {table!r}{COMMANDS}",
            f"GROUPS = {groups!r}{GROUPS}",
        ]
    )


def _list_groups(words: str, defined: Any) -> Iterator[tuple[str, bool]]:
    if hasattr(defined, "commands"):
        yield words, not defined.invoke_without_command
        for name, child in defined.commands.items():
            yield from _list_groups(f"{words} {name}", child)


def main() -> None:
    """Print the module as the formatter leaves it."""
    sys.stdout.write(format_source(render_module(), Path("backend/aitne/cli/command_table.py")))


if __name__ == "__main__":
    main()
