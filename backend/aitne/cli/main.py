"""Entry point of the command line: parses the arguments, runs the command, returns the exit status.

Status 0: success, 1: failure, 2: invalid input, 3: not found or not allowed, 130: interrupted.
"""

from __future__ import annotations

import os
import sys

from aitne.cli import fast_command_path
from aitne.cli.global_option_order import move_global_options

PROGRAM = "aitne"
INTERRUPTED = 130


def run() -> None:
    """Run the ``aitne`` program and exit with its status."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Run one command line and return its exit status. Expected errors are printed without a
    traceback."""
    argv = move_global_options(arguments)
    try:
        status = _dispatch_command(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it. Python would report that again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the outermost layer: every error ends as a sentence
        from aitne.cli.error_report import report_error

        return report_error(error, as_json="--json" in argv)
    return status


def _dispatch_command(argv: list[str]) -> int:
    completing = f"_{PROGRAM.upper()}_COMPLETE" in os.environ
    if not completing:
        status = fast_command_path.run_quick_command(argv)
        if status is not None:
            return status
        argv = argv or ["--help"]
        status = _run_runtime_command(argv)
        if status is not None:
            return status
    from aitne.cli.app import make_command

    # Without its standalone mode Typer returns what the verb returned and raises what it raised.
    result = make_command().main(argv, prog_name=PROGRAM, standalone_mode=False)
    return result if isinstance(result, int) else 0


def _run_runtime_command(argv: list[str]) -> int | None:
    """Run a verb of ``aitne-train`` that the platform does not have, and return its exit status;
    None if the command line has none."""
    from aitne.cli.command_table import COMMANDS
    from aitne_train import cli

    if argv[0] in COMMANDS or argv[0] not in cli.VERBS:
        return None
    return cli.main(argv)
