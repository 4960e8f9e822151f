"""Time of a function that does nothing in a job, over that of a batch job that does nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import reserve_ports

from aitne import Client
from aitne.local_system.settings_loader import load_settings
from benchmarks.figures import Figure, Row
from benchmarks.slurm import api
from benchmarks.stats import median

NAME = "functions"
LIMIT = 1.2
_SMALL = {"resources": {"cpu": 1, "memory": "64M"}, "max_duration": "1m"}
_WAIT_S = 60.0


def measure(*, quick: bool) -> Figure:
    """Pairs of jobs on an idle platform: a batch job, then a function."""
    rounds = 5 if quick else 20
    batch_s, function_s = list[float](), list[float]()
    with TemporaryDirectory(prefix="aitne-bench-") as folder:
        settings = load_settings(
            Path(folder) / "data", scheduler="local", port=reserve_ports(4), broker={"socket": None}
        )
        with api(settings) as ours, ours.controller():
            client = Client(f"http://127.0.0.1:{settings.port}", ours.token)
            _function(client)  # uploads what travels with every function
            for _ in range(rounds):
                batch_s.append(_timed(lambda: _batch(client)))
                function_s.append(_timed(lambda: _function(client)))
    ratios = [function / batch for function, batch in zip(function_s, batch_s, strict=True)]
    return Figure(
        NAME,
        "A function in a job",
        [
            Row("function that does nothing, over a batch job", "", median(ratios), LIMIT),
            Row("function, from submit to its result", "s", median(function_s)),
            Row("batch job of `python -c pass`, from submit to its end", "s", median(batch_s)),
        ],
        [
            f"{rounds} pairs, SQLite, the local scheduler, one client. The function's time includes the "
            "upload of its pickle and the transfer of its result; what travels with every function is "
            "uploaded before.",
        ],
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _batch(client: Client) -> None:
    job = client.jobs.create(
        {"name": "batch", "commands": [f"exec {sys.executable} -c pass"], **_SMALL}
    )
    client.jobs.wait(job.id, timeout_s=_WAIT_S)


def _function(client: Client) -> None:
    client.functions.submit(lambda: None, python=sys.executable, **_SMALL).result(_WAIT_S)
