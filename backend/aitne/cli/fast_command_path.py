"""Fast path for the most frequent commands, which parses simple command lines without loading
Typer.

Only command lines that are certainly valid are accepted. All others (an abbreviation, a mistake,
``--help``) are parsed by Typer, which has the same options (a test compares them).
"""

from __future__ import annotations


class QuickCommand:
    """Description of a command: its function in ``aitne.cli.views``, and the function's parameter
    for each option.

    ``flags`` are options without a value, ``values`` those with one. ``argument`` is the parameter
    for the only positional argument; None if there is none.
    """

    def __init__(
        self,
        module: str,
        function: str,
        flags: dict[str, str],
        values: dict[str, str],
        argument: str | None = None,
    ) -> None:
        self.module = module
        self.function = function
        self.flags = flags
        self.values = values
        self.argument = argument


_PLATFORM = {"--url": "url", "--data-dir": "data_dir"}
QUICK = {
    "ps": QuickCommand(
        "job_table",
        "ps",
        {"--json": "as_json", "--all": "everything", "-a": "everything"},
        _PLATFORM,
    ),
    "status": QuickCommand("platform_status", "status", {"--json": "as_json"}, _PLATFORM),
    "logs": QuickCommand(
        "job_log", "logs", {"--follow": "follow", "-f": "follow"}, _PLATFORM, "job"
    ),
}


def run_quick_command(argv: list[str]) -> int | None:
    """Run a simple command line and return its exit status. If Typer must parse the command line,
    do nothing and return None.
    """
    command = QUICK.get(argv[0]) if argv else None
    arguments = None if command is None else parse_arguments(command, argv[1:])
    if command is None or arguments is None:
        return None
    from importlib import import_module

    module = import_module(f"aitne.cli.views.{command.module}")
    status: int = getattr(module, command.function)(**arguments)
    return status


def parse_arguments(command: QuickCommand, words: list[str]) -> dict[str, str | bool] | None:
    """Return the arguments for the command's function; None if Typer has to parse the command
    line."""
    arguments: dict[str, str | bool] = {}
    rest = iter(words)
    for word in rest:
        if word in command.flags:
            arguments[command.flags[word]] = True
        elif word in command.values:
            value = next(rest, "")
            if not value or value.startswith("-"):
                return None
            arguments[command.values[word]] = value
        elif command.argument is not None and word and not word.startswith("-"):
            if command.argument in arguments:
                return None
            arguments[command.argument] = word
        else:
            return None
    return arguments if command.argument is None or command.argument in arguments else None
