"""``aitne-train VERB``: the commands of the training runtime as verbs of one program.

A verb is imported when it is used, so that one that needs no torch works without it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class TrainCommand(NamedTuple):
    """A verb of the program, whose module has a function ``main`` that takes the arguments and returns the exit
    code.
    """

    module: str
    help: str


VERBS = {
    "profile": TrainCommand(
        "aitne_train.profile_report", "print the communication profile of a run"
    ),
    "linkcheck": TrainCommand("aitne_train.linkcheck.__main__", "measure the links between ranks"),
    "kernel": TrainCommand(
        "aitne_train._native.kernel_build", "compile the shared-memory collectives"
    ),
}
_USAGE = 2


def run() -> None:
    """Run the program ``aitne-train`` and exit with its exit code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Execute the command line and return its exit code."""
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help"):
        sys.stdout.write(_format_help())
        return 0
    verb = VERBS.get(name)
    if verb is None:
        sys.stderr.write(f"aitne-train: there is no verb {name!r}; there is: {', '.join(VERBS)}\n")
        return _USAGE
    try:
        module = import_module(verb.module)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "numpy"):
            raise
        sys.stderr.write(
            f"aitne-train {name} needs PyTorch and NumPy, and {error.name} is not installed: "
            "pip install 'aitne-train[torch]'\n"
        )
        return 1
    code: int = module.main(list(argv[1:]))
    return code


def _format_help() -> str:
    lines = [f"  {name:<10} {verb.help}\n" for name, verb in VERBS.items()]
    return f"usage: aitne-train VERB [ARGUMENTS]\n\n{''.join(lines)}\naitne-train VERB --help describes a verb.\n"
