"""The answers that the real Horovod and ours are compared by, asked of either library.

``scripts/record_horovod.py`` writes those of the real one to ``runtime/tests/assets/horovod``;
``test_conformance.py`` asks ours. The library is named ``aitne_train`` or ``horovod.torch``.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.ranks import MpiPool, Pool, Rank

SIZES = (1, 2, 3, 4)
"""Rank counts that the real Horovod is recorded with."""
EXAMPLE_RANKS = 2
EXAMPLES = Path(__file__).resolve().parents[3] / "runtime" / "examples"
_IMPORT = "import aitne_train as hvd"
_FIGURE = re.compile(r"\d+\.\d+")
_NOT_COMPARED = {"mpi_lib_v2", "init", "shutdown"}
"""A compiled module, and two functions that accept any argument and pass it on."""


def checks(
    pool: Pool | MpiPool, library: str, size: int, transport: str | None = None
) -> dict[str, str]:
    """Run the conformance checks on so many ranks.

    Args:
        pool: the processes of the ranks.
        library: the library that the checks call.
        size: the number of ranks.
        transport: the transport of ours; None for the real Horovod.

    Returns:
        The result of each check, by its name; every rank has the same.

    Raises:
        RanksFailedError: a check failed.
        AssertionError: the ranks' results differ.
    """
    environ = {"AITNE_TRANSPORT": transport} if transport else {}
    first, *others = pool.run(_run_checks, size, library, environ=environ, timeout_s=240)
    assert all(other == first for other in others)
    results: dict[str, str] = first
    return results


def api(pool: Pool | MpiPool, library: str) -> dict[str, str | None]:
    """List the public names of the library, imported in a rank.

    Args:
        pool: the process of the rank.
        library: the library to describe.

    Returns:
        The arguments of each name, with their defaults; None where it is not callable.

    Raises:
        RanksFailedError: the library cannot be imported.
    """
    [names] = pool.run(_describe_api, 1, library)
    result: dict[str, str | None] = names
    return result


def example(pool: Pool | MpiPool, library: str, transport: str | None = None) -> str:
    """Train the example with only its import changed.

    Args:
        pool: the processes of the ranks.
        library: the library that the example imports.
        transport: the transport of ours; None for the real Horovod.

    Returns:
        The output of rank 0; no other rank prints.

    Raises:
        RanksFailedError: the example failed.
        AssertionError: another rank printed too.
    """
    environ = {"AITNE_TRANSPORT": transport} if transport else {}
    printed = pool.run(_run_example, EXAMPLE_RANKS, library, environ=environ, timeout_s=120)
    assert not any(printed[1:])
    text: str = printed[0]
    return text


def figures(printed: str) -> tuple[str, list[float]]:
    """Return the output of the example without its decimal figures, and those figures."""
    return _FIGURE.sub("#", printed), [float(figure) for figure in _FIGURE.findall(printed)]


def _run_checks(me: Rank, library: str) -> dict[str, str]:
    from runtime.tests.ranks import conformance

    return conformance.run(library, [])


def _run_example(me: Rank, library: str) -> str:
    source = (EXAMPLES / "lenet5_horovod.py").read_text()
    assert _IMPORT in source
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "lenet5_horovod.py"
        script.write_text(source.replace(_IMPORT, f"import {library} as hvd"))
        sys.path.insert(0, str(EXAMPLES))
        try:
            sys.argv = [str(script), "--epochs", "2", "--batch", "240"]
            with contextlib.redirect_stdout(printed):
                runpy.run_path(str(script), run_name="__main__")
        finally:
            sys.path.remove(str(EXAMPLES))
    importlib.import_module(library).shutdown()
    return printed.getvalue()


def _describe_api(me: Rank, library: str) -> dict[str, str | None]:
    names = {
        name: value
        for name, value in vars(importlib.import_module(library)).items()
        if not name.startswith("_") and name not in _NOT_COMPARED
    }
    return {
        name: _arguments(value) if callable(value) else None
        for name, value in sorted(names.items())
    }


def _arguments(call: Any) -> str:
    if inspect.isclass(call) and issubclass(call, BaseException):
        return ""  # its signature is C's, which Python releases describe differently
    return ", ".join(_argument(each) for each in inspect.signature(call).parameters.values())


def _argument(parameter: inspect.Parameter) -> str:
    variadic: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    stars = variadic.get(parameter.kind, "")
    default = parameter.default
    if default is parameter.empty:
        return f"{stars}{parameter.name}"
    if callable(default) or type(default).__name__ == "ProcessSet":
        # Two libraries' objects are never equal; the same name stands for the same default.
        default = getattr(default, "__name__", type(default).__name__)
    return f"{stars}{parameter.name}={default}"
