"""Run of a function on several ranks, from a program that is not a rank: ``horovod.run``."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aitne.launch import rendezvous

FUNCTION = "function.pickle"


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    *,
    hosts: str | None = None,
    hostfile: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    network_interfaces: str | None = None,
    executable: str | None = None,
    np: int | None = None,
) -> list[Any]:
    """Start ranks by ``aitne-run``, call ``func(*args, **kwargs)`` on each, and return the results by
    rank.

    The function calls ``init`` itself. It is sent by cloudpickle if that is installed; otherwise by
    pickle, which requires that a module other than the program itself defines it.

    Args:
        func: Function that every rank calls.
        args: Positional arguments of the function.
        kwargs: Keyword arguments of the function.
        num_proc: Number of ranks; None: as many as ``hosts`` or the job has.
        hosts: Nodes and their ranks, such as ``a:2,b:2``. They share the folder for the rendezvous.
        hostfile: File with the nodes, in a line ``name slots=2`` for each.
        start_timeout: Seconds in which ranks have to join.
        ssh_port: Port of ssh on the nodes.
        ssh_identity_file: File with the private key of ssh.
        use_gloo: Exchange tensors without MPI, as is the default.
        use_mpi: Exchange tensors by MPI.
        network_interfaces: Network interface between nodes; of several, the first that a node has.
        executable: Python interpreter of the ranks; None: this one.
        np: The old name of ``num_proc``.

    Raises:
        RuntimeError: a rank failed; the output of the ranks has the reason.
        TypeError: the function cannot be sent.
        aitne.launch.errors.LaunchError: the folder for the rendezvous cannot be used.
    """
    options: list[str] = []
    for name, value in (
        ("-np", num_proc if num_proc is not None else np),
        ("-H", hosts),
        ("--hostfile", hostfile),
        ("--timeout", start_timeout),
        ("--ssh-port", ssh_port),
        ("--ssh-identity-file", ssh_identity_file),
        ("--network-interface", network_interfaces),
        ("--transport", "mpi" if use_mpi else "auto" if use_gloo else None),
    ):
        if value is not None:
            options += [name, str(value)]
    shared = rendezvous.folder({}, 2) if hosts or hostfile else None
    with tempfile.TemporaryDirectory(prefix="aitne-function-", dir=shared) as folder:
        call = sys.path, dumped((func, tuple(args), dict(kwargs or {})))
        Path(folder, FUNCTION).write_bytes(pickle.dumps(call))
        python = executable or sys.executable
        rank_program = [python, "-m", "aitne.distrib.run_rank", folder]
        command = [sys.executable, "-m", "aitne.launch", *options, "--", *rank_program]
        code = subprocess.run(command, check=False).returncode
        if code:
            raise RuntimeError(
                f"The ranks of {getattr(func, '__qualname__', func)} ended with exit code {code}: see their output."
            )
        return [pickle.loads(path.read_bytes()) for path in result_files(folder)]  # noqa: S301


def dumped(value: Any) -> bytes:
    """Return the value in pickled form. Raises ``TypeError`` if another process could not read it."""
    if importlib.util.find_spec("cloudpickle") is not None:
        data: bytes = importlib.import_module("cloudpickle").dumps(value)
        return data
    data = pickle.dumps(value)
    if b"__main__" in data:
        raise TypeError(
            "The program itself defines the function or one of its values, which pickle does not send: install "
            "cloudpickle, or move the definition to a module."
        )
    return data


def result_file(folder: str, rank: int) -> Path:
    """Return the file for the result of a rank."""
    return Path(folder, f"result-{rank}.pickle")


def result_files(folder: str) -> list[Path]:
    """Return the files with the results of all ranks, in the order of ranks."""
    return [
        result_file(folder, rank) for rank in range(len(list(Path(folder).glob("result-*.pickle"))))
    ]
