"""Time of a step with DistributedOptimizer, compared with other data parallelism."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.ports import reserve_ports

from aitne_train.launcher.rendezvous_store_client import ADDRESSES, PREFIX, TOKEN
from aitne_train.launcher.rendezvous_store_server import RendezvousServer
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, running
from benchmarks.stats import median, median_ratio

NAME = "train_step"
SOCKET = "AITNE_BENCHMARK_SOCKET"
RANKS = 2
ROOT = Path(__file__).parents[2]
MODELS = {"mlp": "small MLP", "gradients": "ResNet-18's gradients"}
STEPS = {"mlp": 250, "gradients": 5}
"""Steps of one measurement, which takes some tenths of a second."""

Cost = tuple[float, float]
"""Elapsed time of one step, and CPU time of both ranks, in seconds."""


def measure(*, quick: bool) -> Figure:
    """Measure each comparison in interleaved pairs."""
    if importlib.util.find_spec("torch") is None:
        raise BenchmarkError("torch is missing: make distrib")
    pairs = 8 if quick else 40
    rows: list[Row] = []
    notes = [
        f"{RANKS} ranks on this machine. The small MLP is 64-128-128-10 on 32 examples; ResNet-18's "
        "gradients are 62 tensors of 46.8 MB whose computation is one pass over them. Plain SGD; one "
        "thread for computation per rank.",
        "A pair is two runs of the same number of steps, one right after the other, in turns of "
        "which comes first. CPU time is that of all threads of both ranks.",
        "Over DDP both are in the same two processes, over gloo on loopback. Processes of the other "
        "comparisons are stopped while it is not their turn: Horovod's thread never sleeps for longer "
        "than a cycle.",
    ]
    for model, words in MODELS.items():
        rows += _over_ddp(model, words, pairs)
        rows += _over_horovod(model, words, pairs, notes)
        rows += _watched(model, words, pairs)
    from runtime.benchmarks import train_step_cuda  # needs torch

    rows += train_step_cuda.rows(pairs, notes)
    return Figure(NAME, "Steps of training with DistributedOptimizer", rows, notes)


def _over_ddp(model: str, words: str, pairs: int) -> list[Row]:
    ways = ("ours", "ddp", "ddp as view")
    with _ranks(model, ways, {"AITNE_TRANSPORT": "torch_pg"}) as group:
        plain = _pairs((group, "ours"), (group, "ddp"), model, pairs)
        view = _pairs((group, "ours"), (group, "ddp as view"), model, pairs)
    return [
        *_rows(f"{words}, ours on gloo over DDP", plain, 1.01),
        *_rows(f"{words}, ours on gloo over DDP with gradient_as_bucket_view", view, None),
        Row(f"{words}, ours on gloo", "ms", median([a[0] * 1e3 for a, _ in plain])),
        Row(f"{words}, DDP", "ms", median([b[0] * 1e3 for _, b in plain])),
    ]


def _over_horovod(model: str, words: str, pairs: int, notes: list[str]) -> list[Row]:
    lacking = [each for each in ("mpi4py", "horovod") if importlib.util.find_spec(each) is None]
    if lacking or shutil.which("mpirun") is None:
        note = f"Not over Horovod: {', '.join(lacking) or 'mpirun'} is missing here."
        if note not in notes:
            notes.append(note)
        return []
    rows = []
    with _ranks(model, ("horovod",), {}, mpirun=True) as theirs:
        for transport, mpirun in (("mpi", True), ("shm", False)):
            variables = {"AITNE_TRANSPORT": transport}
            with _ranks(model, ("ours",), variables, mpirun=mpirun) as ours:
                taken = _pairs((ours, "ours"), (theirs, "horovod"), model, pairs)
            rows += _rows(f"{words}, ours on {transport} over Horovod on MPI", taken, 1.0)
            rows.append(
                Row(f"{words}, ours on {transport}", "ms", median([a[0] * 1e3 for a, _ in taken]))
            )
        rows.append(Row(f"{words}, Horovod on MPI", "ms", median([b[0] * 1e3 for _, b in taken])))
    return rows


def _watched(model: str, words: str, pairs: int) -> list[Row]:
    """Measure a step with records, profile and guard, as in a job, and without them."""
    with TemporaryDirectory(prefix="aitne-bench-run-") as folder:
        variables = {"AITNE_TRANSPORT": "shm", "AITNE_RUN_DIR": folder}
        without = {"AITNE_TRANSPORT": "shm", "AITNE_GUARD_LAG_S": "0"}
        with (
            _ranks(model, ("ours",), variables) as watched,
            _ranks(model, ("unwatched",), without) as unwatched,
        ):
            taken = _pairs((watched, "ours"), (unwatched, "unwatched"), model, pairs)
    what = f"{words}, records, profile and guard on over off"
    return [Row(f"{what}, CPU time", "x", _ratio(taken, 1), 1.01), Row(what, "x", _ratio(taken, 0))]


def _rows(what: str, taken: Sequence[tuple[Cost, Cost]], target: float | None) -> list[Row]:
    return [
        Row(what, "x", _ratio(taken, 0), target),
        Row(f"{what}, CPU time", "x", _ratio(taken, 1), target),
    ]


def _ratio(taken: Sequence[tuple[Cost, Cost]], of: int) -> Any:
    return median_ratio([(a[of], b[of]) for a, b in taken])


def _pairs(
    ours: tuple[_Group, str], theirs: tuple[_Group, str], model: str, count: int
) -> list[tuple[Cost, Cost]]:
    steps = STEPS[model]

    def run(each: tuple[_Group, str]) -> Cost:
        return each[0].run(each[1], steps)

    for each in (ours, theirs, ours, theirs):
        run(each)
    taken = []
    for number in range(count):
        if number % 2:
            mine = run(ours)
            taken.append((mine, run(theirs)))
        else:
            other = run(theirs)
            taken.append((run(ours), other))
    return taken


@dataclass
class _Group:
    """The ranks of one way of training; stopped but for when they are told to train."""

    connections: Sequence[Connection]
    pids: Sequence[int]

    def run(self, way: str, steps: int) -> Cost:
        self.signal(signal.SIGCONT)
        for each in self.connections:
            each.send((way, steps))
        costs: list[Cost] = []
        for each in self.connections:
            if not each.poll(300):
                raise BenchmarkError(f"ranks that train by {way!r} do not end")
            try:
                costs.append(each.recv())
            except (EOFError, ConnectionError):
                raise BenchmarkError(f"a rank that trains by {way!r} has ended") from None
        self.signal(signal.SIGSTOP)
        return max(wall for wall, _ in costs), sum(cpu for _, cpu in costs)

    def signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def _ranks(
    model: str, ways: Sequence[str], variables: Mapping[str, str], *, mpirun: bool = False
) -> Iterator[_Group]:
    argv = [
        sys.executable,
        "-m",
        "runtime.benchmarks.train_step_rank",
        model,
        "cpu",
        ",".join(ways),
    ]
    with TemporaryDirectory(prefix="aitne-bench-") as folder:
        log = Path(folder) / "log"
        try:
            with _running_ranks(argv, variables, Path(folder) / "socket", log, mpirun) as group:
                yield group
        except BenchmarkError as error:
            # By now they have ended, and said all that they will say.
            said = log.read_text()[-2000:] if log.exists() else ""
            raise BenchmarkError(f"{error}: {said}") from None


@contextlib.contextmanager
def _running_ranks(
    argv: Sequence[str], variables: Mapping[str, str], socket: Path, log: Path, mpirun: bool
) -> Iterator[_Group]:
    token = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(Listener(str(socket), "AF_UNIX"))
        store = RendezvousServer(token, "127.0.0.1")
        stack.callback(store.close)
        env = {
            **variables,
            SOCKET: str(socket),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(reserve_ports()),
        }
        if mpirun:
            head = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
            stack.enter_context(running([*head, "-np", str(RANKS), *argv], log, env, cwd=ROOT))
        else:
            meeting = {
                ADDRESSES: f"127.0.0.1:{store.port}",
                TOKEN: token,
                PREFIX: "benchmark/",
            }
            for rank in range(RANKS):
                stack.enter_context(running(argv, log, env | meeting | _place(rank), cwd=ROOT))
        connections: list[Connection] = []
        listener._listener._socket.settimeout(120)  # type: ignore[attr-defined]
        try:
            for _ in range(RANKS):
                connections.append(stack.enter_context(listener.accept()))
            pids = [each.recv() for each in connections]
        except (OSError, EOFError):
            raise BenchmarkError("ranks do not start") from None
        group = _Group(connections, pids)
        stack.callback(group.signal, signal.SIGCONT)
        yield group


def _place(rank: int) -> dict[str, str]:
    numbers = {
        "HOROVOD_RANK": rank,
        "HOROVOD_SIZE": RANKS,
        "HOROVOD_LOCAL_RANK": rank,
        "HOROVOD_LOCAL_SIZE": RANKS,
        "HOROVOD_CROSS_RANK": 0,
        "HOROVOD_CROSS_SIZE": 1,
        "RANK": rank,
        "WORLD_SIZE": RANKS,
        "LOCAL_RANK": rank,
    }
    return {name: str(number) for name, number in numbers.items()}
