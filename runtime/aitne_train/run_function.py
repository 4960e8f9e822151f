"""Function ``run`` (``horovod.run``), by which a program that is not a rank runs a function on
several ranks.
"""

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

from aitne_train.launcher import rendezvous_store_client

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
    """Start ranks by ``aitne-run``, call ``func(*args, **kwargs)`` on each, and return the results
    in the order of the ranks.

    The function must call ``init`` itself. It is sent to the ranks by cloudpickle if that is
    installed; otherwise by pickle, which requires that the function is defined in an importable
    module, not in the main program.

    Args:
        func: function that every rank calls.
        args: positional arguments of the function.
        kwargs: keyword arguments of the function.
        num_proc: number of ranks; None for as many as ``hosts`` or the job has.
        hosts: nodes and the number of ranks on each, such as ``a:2,b:2``. All nodes must see the
            folder that the ranks use to find each other.
        hostfile: file with the nodes, one line such as ``name slots=2`` for each.
        start_timeout: seconds within which all ranks must connect.
        ssh_port: port of the ssh servers on the nodes.
        ssh_identity_file: file with the private key for ssh.
        use_gloo: True to exchange tensors without MPI, which is the default.
        use_mpi: True to exchange tensors by MPI.
        network_interfaces: names of the network interfaces to use between nodes, comma-separated;
            the first that a node has is used.
        executable: Python interpreter of the ranks; None for the current one.
        np: deprecated alias of ``num_proc``.

    Raises:
        RuntimeError: a rank failed; the output of the ranks states the reason.
        TypeError: the function or an argument cannot be pickled.
        aitne_train.launcher.errors.LaunchError: the folder that the ranks use to find each other cannot be
            used.
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
    shared = rendezvous_store_client.create_store_folder({}, 2) if hosts or hostfile else None
    with tempfile.TemporaryDirectory(prefix="aitne-function-", dir=shared) as folder:
        call = sys.path, dump_value((func, tuple(args), dict(kwargs or {})))
        Path(folder, FUNCTION).write_bytes(pickle.dumps(call))
        python = executable or sys.executable
        rank_program = [python, "-m", "aitne_train.run_rank", folder]
        command = [sys.executable, "-m", "aitne_train.launcher", *options, "--", *rank_program]
        code = subprocess.run(command, check=False).returncode
        if code:
            raise RuntimeError(
                f"The ranks of {getattr(func, '__qualname__', func)} ended with exit code {code}: see their output."
            )
        return [pickle.loads(path.read_bytes()) for path in locate_result_files(folder)]  # noqa: S301


def dump_value(value: Any) -> bytes:
    """Return the value in pickled form.

    Raises ``TypeError`` if another process could not unpickle it.
    """
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


def locate_result_file(folder: str, rank: int) -> Path:
    """Return the path of the file to which rank ``rank`` writes its result."""
    return Path(folder, f"result-{rank}.pickle")


def locate_result_files(folder: str) -> list[Path]:
    """Return the paths of the files with the results of all ranks, in the order of the ranks."""
    return [
        locate_result_file(folder, rank)
        for rank in range(len(list(Path(folder).glob("result-*.pickle"))))
    ]
