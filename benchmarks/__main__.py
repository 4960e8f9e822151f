"""Run benchmarks: ``python -m benchmarks [names] [--quick] [--json] [--write]``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import figures
from benchmarks.figures import Figure
from benchmarks.processes import BenchmarkError

NAMES = (
    "page",
    "sse",
    "session",
    "portal",
    "container_start",
    "memory",
    "cli",
    "growth",
    "backup",
    "metrics",
    "agent",
    "fairness",
    "manifest",
    "nodes",
    "submit",
    "functions",
    "slurm_submit",
    "slurm_array",
    "slurm_poll",
    "slurm_browsers",
    "slurm_start",
    "allreduce",
    "train_step",
    "notebook_ranks",
    "notebook_start",
    "notebook_day",
    "placement",
    "rank_order",
)
"""The modules of the benchmarks, each with ``measure(quick)``; they are imported when needed."""
OF_RUNTIME = frozenset({"allreduce", "train_step", "notebook_ranks", "rank_order"})
"""Benchmarks of the training runtime, which are beside it."""


def main(given: Sequence[str] | None = None) -> int:
    """Measure one figure after the other; 1 when one could not be taken. A missed target is no error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, wider intervals")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--write", action="store_true", help="put the tables into the docs page")
    arguments = parser.parse_args(given)
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no figure {unknown[0]}; there are {', '.join(NAMES)}")
    found: list[Figure] = []
    failed = False
    for name in arguments.names or NAMES:
        print(f"measuring {name} …", file=sys.stderr)
        where = figures.machine_note()
        try:
            figure: Figure = importlib.import_module(
                f"{'runtime.' if name in OF_RUNTIME else ''}benchmarks.{name}"
            ).measure(quick=arguments.quick)
        except BenchmarkError as error:
            print(f"{name} could not be taken: {error}", file=sys.stderr)
            failed = True
            continue
        figure = replace(figure, notes=[*figure.notes, where])
        found.append(figure)
        if not arguments.json:
            print(f"\n{figures.table(figure)}\n", flush=True)
    if arguments.json:
        print(json.dumps([figure.as_json() for figure in found], indent=1))
    if arguments.write:
        for name in figures.write(found):
            print(f"the docs page has no place for {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
