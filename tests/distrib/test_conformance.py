"""The conformance checks over each transport, and over the real Horovod, from one rank to four."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.distrib import conformance
from tests.support.ranks import Pool, Rank
from tests.support.requirements import lacking

SIZES = (1, 2, 3, 4)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"


# Four ranks on two cores take their time.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def oracle() -> Iterator[Pool]:
    """Ranks for the real Horovod, which a process can initialize only once under MPI."""
    if importlib.util.find_spec("horovod") is None or shutil.which("mpirun") is None:
        lacking("horovod", "needs the real Horovod and mpirun: scripts/horovod_wheel.py")
    ranks = Pool("mpirun")
    yield ranks
    ranks.close()


def ask_all(me: Rank, library: str, names: list[str]) -> dict[str, str]:
    return conformance.run(library, names)


def judge(results: list[dict[str, str]]) -> None:
    """Whatever does not apply did not on any rank, and most did."""
    assert all(each == results[0] for each in results)
    assert list(results[0].values()).count("passed") > 60


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transport", ["torch_pg", "shm"])
def test_ours(pool: Pool, transport: str, size: int) -> None:
    environ = {"AITNE_TRANSPORT": transport}
    judge(pool.run(ask_all, size, "aitne.distrib", [], environ=environ, timeout_s=240))


@pytest.mark.parametrize("size", SIZES)
def test_ours_over_mpi(mpi_pool: Pool, size: int) -> None:
    environ = {"AITNE_TRANSPORT": "mpi"}
    judge(mpi_pool.run(ask_all, size, "aitne.distrib", [], environ=environ, timeout_s=240))


@pytest.mark.parametrize("size", SIZES)
def test_the_real_horovod(oracle: Pool, size: int) -> None:
    judge(oracle.run(ask_all, size, "horovod.torch", [], timeout_s=240))


def test_whatever_the_real_one_takes_ours_takes(oracle: Pool) -> None:
    assert oracle.run(differences, 1) == [[]]


def test_an_example_runs_with_only_the_import_changed(pool: Pool, oracle: Pool) -> None:
    theirs = oracle.run(run_example, 2, "horovod.torch", timeout_s=120)
    environ = {"AITNE_TRANSPORT": "torch_pg"}
    ours = pool.run(run_example, 2, "aitne.distrib", environ=environ, timeout_s=120)
    assert "accuracy" in theirs[0]
    assert ours == theirs


def run_example(me: Rank, library: str) -> str:
    """What an example prints, trained with this library."""
    source = (EXAMPLES / "lenet5_horovod.py").read_text()
    line = "import aitne.distrib as hvd"
    assert line in source
    script = Path(f"/tmp/{me.call}-{me.rank}.py")
    script.write_text(source.replace(line, f"import {library} as hvd"))
    sys.path.insert(0, str(EXAMPLES))
    printed = io.StringIO()
    try:
        sys.argv = [str(script), "--epochs", "2", "--batch", "240"]
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        script.unlink()
        sys.path.remove(str(EXAMPLES))
    importlib.import_module(library).shutdown()
    return printed.getvalue()


def differences(me: Rank) -> list[str]:
    """Public functions and classes that ours lacks, or whose arguments have other names or defaults."""
    theirs = importlib.import_module("horovod.torch")
    ours = importlib.import_module("aitne.distrib")
    found = []
    for name, their in vars(theirs).items():
        # init and shutdown take anything there, and pass it on.
        if name.startswith("_") or name in {"mpi_lib_v2", "init", "shutdown"}:
            continue
        own = getattr(ours, name, None)
        if own is None:
            found.append(f"there is no {name}")
        elif inspect.isfunction(their) or inspect.isclass(their):
            one, other = arguments_of(their), arguments_of(own)
            if one != other:
                found.append(f"{name} takes {other}, not {one}")
    return found


def arguments_of(call: Any) -> list[tuple[str, str]]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:  # an exception's, which is C's
        return []
    return [
        (each.name, getattr(each.default, "__name__", type(each.default).__name__))
        if callable(each.default) or type(each.default).__name__ == "ProcessSet"
        else (each.name, str(each.default))
        for each in parameters
    ]
