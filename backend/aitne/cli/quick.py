"""Fast path for the most frequent verbs: no parser library is loaded for a plain command line.

Only command lines that are certainly valid are accepted. All others (an abbreviation, a mistake,
``--help``) are parsed by Typer, which has the same options (a test compares them).
"""

from __future__ import annotations


class QuickVerb:
    """Description of a CLI command that is run without the full command line parser: its function
    in ``aitne.cli.verbs``, and the function's parameter for each option.

    ``argument`` is the parameter for its only positional argument; None if it has none.
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
    "ps": QuickVerb(
        "ps", "ps", {"--json": "as_json", "--all": "everything", "-a": "everything"}, _PLATFORM
    ),
    "status": QuickVerb("status", "status", {"--json": "as_json"}, _PLATFORM),
    "logs": QuickVerb("logs", "logs", {"--follow": "follow", "-f": "follow"}, _PLATFORM, "job"),
}


def run(argv: list[str]) -> int | None:
    """Run a plain command line of a quick verb and return its exit status; None for any other."""
    verb = QUICK.get(argv[0]) if argv else None
    arguments = None if verb is None else read(verb, argv[1:])
    if verb is None or arguments is None:
        return None
    from importlib import import_module

    module = import_module(f"aitne.cli.verbs.{verb.module}")
    status: int = getattr(module, verb.function)(**arguments)
    return status


def read(verb: QuickVerb, words: list[str]) -> dict[str, str | bool] | None:
    """Return the verb's keyword arguments; None if the command line is not plain."""
    arguments: dict[str, str | bool] = {}
    rest = iter(words)
    for word in rest:
        if word in verb.flags:
            arguments[verb.flags[word]] = True
        elif word in verb.values:
            value = next(rest, "")
            if not value or value.startswith("-"):
                return None
            arguments[verb.values[word]] = value
        elif verb.argument is not None and word and not word.startswith("-"):
            if verb.argument in arguments:
                return None
            arguments[verb.argument] = word
        else:
            return None
    return arguments if verb.argument is None or verb.argument in arguments else None
