"""Time from `%ranks start 4` on an idle node to the first result, compared with a batch job."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from aitne.client import Client
from aitne.supervisor import software_environments
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, eventually
from benchmarks.stats import median, median_ratio
from benchmarks.whole import Whole, platform

NAME = "notebook_start"
RANKS, MOST = 4, 1.5
_MEMORY_MB = 300
_WAIT_S = 120.0


def measure(*, quick: bool) -> Figure:
    """Measure rank groups and batch jobs in turn, on a node with nothing else than an idle session."""
    if find_spec("ipyparallel") is None:
        raise BenchmarkError("it needs ipyparallel: pip install 'aitne[notebook]'")
    rounds = 3 if quick else 15
    ranks_s, batch_s, plain_s = list[float](), list[float](), list[float]()
    with platform(local__cpus="8", local__gpus="none") as whole:
        client = Client(f"http://127.0.0.1:{whole.port}", whole.token)
        small = {"resources": {"cpu": 1, "memory": "1G"}, "max_duration": "1h"}
        session = client.sessions.start("jupyterlab", job_file=small)
        client.sessions.wait_ready(session.id, timeout_s=_WAIT_S)
        with _shell(whole, session.id) as shell:
            _ranks(client, session.id, shell)
            for _ in range(rounds):
                ranks_s.append(_ranks(client, session.id, shell))
                batch_s.append(_batch(client, distributed={"ranks_per_node": RANKS}))
                plain_s.append(_batch(client))
    ratios = median_ratio(list(zip(ranks_s, batch_s, strict=True)))
    return Figure(
        NAME,
        f"The start of {RANKS} ranks",
        [
            Row(f"%ranks start {RANKS} over a batch job of {RANKS} ranks", "x", ratios, MOST),
            Row(f"%ranks start {RANKS}, to the first result", "s", median(ranks_s)),
            Row(f"batch job of {RANKS} ranks, to its first line", "s", median(batch_s)),
            Row("batch job without ranks, to its first line", "s", median(plain_s)),
        ],
        [
            f"{rounds} rounds of the three in turn, SQLite, the local scheduler; nothing else runs but the idle session "
            "to which the ranks belong. Its kernel is stood for by a shell in the benchmark's process.",
            f"To the first result: from the magic until a cell of `1 + 1` on all {RANKS} ranks has its value. To the first "
            "line: from the submission until the client that follows the log has it; the program is the Python of "
            f"sessions, which prints a line. All have {RANKS} CPUs and {RANKS * _MEMORY_MB} MB of memory.",
        ],
    )


@contextlib.contextmanager
def _shell(whole: Whole, session: str) -> Iterator[Any]:
    """Open a shell that belongs to the session, as its kernels do."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    before = dict(os.environ)
    os.environ |= {
        "HOME": whole.env["HOME"],
        "AITNE_URL": f"http://127.0.0.1:{whole.port}",
        "AITNE_TOKEN": whole.token,
        "AITNE_SESSION": session,
    }
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "aitne.notebook")
    try:
        yield shell
    finally:
        shell.aitne_ranks._detach_group()
        InteractiveShell.clear_instance()
        os.environ.clear()
        os.environ.update(before)


def _ranks(client: Client, session: str, shell: Any) -> float:
    """Start ranks, execute a cell, and release them; return the seconds until the cell's value."""

    def first_result() -> None:
        shell.run_line_magic("ranks", f"start {RANKS} --memory {_MEMORY_MB}M")
        if repr(shell.run_cell_magic("distributed", "", "1 + 1")) != "2":
            raise BenchmarkError("the cell has no value on the ranks")

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        seconds = _timed(first_result)
        shell.run_line_magic("ranks", "stop")
    eventually(
        "the end of the ranks", lambda: not list(client.sessions.ranks(session, live=True)), _WAIT_S
    )
    return seconds


def _batch(client: Client, **fields: Any) -> float:
    """Submit a job and return the seconds until its first line; the job has ended then."""
    python = software_environments.session_env_dir() / "bin" / "python"
    body = {
        "name": "batch",
        "commands": [f"exec {python} -c 'print(2)'"],
        "resources": {"cpu": RANKS, "memory": f"{RANKS * _MEMORY_MB}M"},
        "max_duration": "5m",
        **fields,
    }
    job = ""

    def first_line() -> None:
        nonlocal job
        job = client.jobs.create(body).id
        if not next(client.jobs.follow_logs(job), b""):
            raise BenchmarkError("a batch job has printed nothing")

    seconds = _timed(first_line)
    client.jobs.wait(job, timeout_s=_WAIT_S)
    return seconds


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
