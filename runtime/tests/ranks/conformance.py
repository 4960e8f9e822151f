"""Conformance checks of the public API, which run on `aitne_train` and on the real Horovod.

The library is chosen by name, so the real one is the oracle: where both pass, both behave alike.
Each check runs on every rank, in one order::

    mpirun -np 3 python -m runtime.tests.ranks.conformance horovod.torch
    aitne-run -np 3 python -m runtime.tests.ranks.conformance aitne_train [CHECK...]

A check that the real Horovod cannot pass has the reason in ``oracle_cannot`` and runs on
`aitne_train` only. Where Horovod refuses a call, the check verifies the refusal.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

AREAS = ("collectives", "gradients", "groups", "disagreement", "functions", "training", "elastic")
"""Modules ``conformance_*`` beside this one."""


@dataclass(frozen=True)
class Case:
    """The argument of a check: the initialized library and this rank."""

    hvd: Any
    oracle: bool
    """The library is the real Horovod."""
    rank: int
    size: int
    sets: dict[str, Any]
    """Process sets that ``init`` was given: ``first`` has rank 0 only, where there are others."""


@dataclass(frozen=True)
class Check:
    """One question; ``ask`` raises if the answer is wrong."""

    name: str
    ask: Callable[[Case], None]
    ranks: int
    oracle_cannot: str


CHECKS: list[Check] = []


def check(ranks: int = 1, oracle_cannot: str = "") -> Callable[[Callable[[Case], None]], Any]:
    """Decorate a check that needs ``ranks`` ranks.

    ``oracle_cannot`` is the reason why the real Horovod cannot pass it.
    """

    def register(ask: Callable[[Case], None]) -> Callable[[Case], None]:
        CHECKS.append(Check(ask.__name__, ask, ranks, oracle_cannot))
        return ask

    return register


@contextlib.contextmanager
def refused(*kinds: type[BaseException], says: str = "") -> Iterator[None]:
    """Check that the block raises one of these errors on this rank, with ``says`` in its text."""
    said: str | None = None
    try:
        yield
    except kinds as error:
        said = str(error)
    assert said is not None, f"did not raise {kinds}"
    assert says.lower() in said.lower(), f"{says!r} is not in {said!r}"


def equal(got: torch.Tensor, wanted: Any, tolerance: float = 0.0) -> None:
    """Assert equal dtype and shape, and values that differ by no more than ``tolerance``."""
    if not isinstance(wanted, torch.Tensor):
        wanted = torch.tensor(wanted, dtype=got.dtype)
    assert got.dtype is wanted.dtype, (got.dtype, wanted.dtype)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    assert torch.allclose(got, wanted, rtol=tolerance, atol=tolerance), (got, wanted)


def run(library: str, names: list[str]) -> dict[str, str]:
    """Ask all checks, or these, on this rank; returns what became of each that did not fail.

    Raises:
        AssertionError: of the first that failed, with its name.
    """
    torch.set_num_threads(1)
    for area in AREAS:
        importlib.import_module(f"runtime.tests.ranks.conformance_{area}")
    hvd = importlib.import_module(library)
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    first = hvd.ProcessSet([0])
    alone = os.environ.get("HOROVOD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) == "1"
    hvd.init(process_sets=[] if alone else [first])
    case = Case(
        hvd, library == "horovod.torch", hvd.rank(), hvd.size(), {} if alone else {"first": first}
    )
    results = {}
    for each in CHECKS:
        if names and each.name not in names:
            continue
        if case.size < each.ranks:
            results[each.name] = f"needs {each.ranks} ranks"
        elif case.oracle and each.oracle_cannot:
            results[each.name] = f"the real one cannot: {each.oracle_cannot}"
        else:
            sys.stdout.write(f"check {each.name}\n")
            sys.stdout.flush()
            try:
                each.ask(case)
            except BaseException as error:
                error.add_note(f"in {each.name} on rank {case.rank} of {case.size}, {library}")
                raise
            results[each.name] = "passed"
            even_out(case)
    hvd.shutdown()
    return results


def even_out(case: Case) -> None:
    """Call it where ranks have made different numbers of calls.

    The real Horovod names what has no name after a count of this rank's calls, failed ones too: a rank
    that has made fewer than the others would wait for ever. A broadcast that is refused adds one.
    """
    if not case.oracle:
        return
    hvd = case.hvd
    handle = hvd.allreduce_async(torch.zeros(1), name="conformance.call")
    hvd.synchronize(handle)
    own = torch.tensor([handle])
    most = int(hvd.allreduce(own, op=hvd.Max, name="conformance.calls"))
    for _ in range(most - handle):
        with refused(ValueError):
            hvd.broadcast_async(own, -1)


def main() -> None:
    """Ask on this rank; the exit status says whether all is well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["aitne_train", "horovod.torch"])
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    faulthandler.dump_traceback_later(240, exit=True)
    results = this().run(arguments.library, arguments.names)
    for name, result in results.items():
        sys.stdout.write(f"{result:8} {name}\n")


def this() -> Any:
    """Return this module under its own name; run as a script it would exist twice, with two registries."""
    return importlib.import_module("runtime.tests.ranks.conformance")


if __name__ == "__main__":
    sys.exit(main())
