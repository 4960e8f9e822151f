"""Growth of the API's memory while users read a long job history."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import reserve_ports

from aitne.core.models.job import JobChanges
from aitne.core.settings import Settings
from aitne.services.controller.leader import Leader
from aitne.store import Store
from aitne.store.transitions import TransitionRequest
from benchmarks import jobs_table
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, answers, eventually, running
from benchmarks.sse_clients import listening
from benchmarks.stats import Estimate

NAME = "growth"
ENDED, LIVE = 100_000, 10_000
MOST_MB = 150.0
LISTENERS = 100
READERS = 4
PAGE = 500
CHANGED_AT_ONCE = 100
_STEP_S = 1.0
_MB = 1e6


def measure(*, quick: bool) -> Figure:
    """Measure an idle API with an empty database, and one in use with a full database."""
    pages, jobs = (60, 200) if quick else (2 * (ENDED + LIVE) // PAGE, 4_000)
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        empty, full = (
            Settings(data_dir=Path(name) / which, port=reserve_ports())
            for which in ("empty", "full")
        )
        for settings, ended, live in ((empty, 0, 0), (full, ENDED, LIVE)):
            settings.data_dir.mkdir()
            tokens = asyncio.run(jobs_table.fill(settings, ended=ended, live=live))
        with _api(empty) as pid:
            rest = _memory(pid, "VmRSS")
        with _api(full) as pid:
            began = _memory(pid, "VmRSS")
            _use(full, tokens, pages, jobs)
            most, after = _memory(pid, "VmHWM"), _memory(pid, "VmRSS")
    return Figure(
        NAME,
        f"The API's memory with {LIVE} live and {ENDED} finished jobs",
        [
            Row("growth at its highest", "MB", _exact(most - rest), MOST_MB),
            Row("growth afterwards", "MB", _exact(after - rest)),
            Row("at rest, no jobs", "MB", _exact(rest)),
            Row("at rest, all jobs", "MB", _exact(began)),
            Row("in use, at its highest", "MB", _exact(most)),
        ],
        [
            f"In use: {READERS} readers with {pages} pages of {PAGE} jobs (all of them, by state, by a "
            f"part of the name; an administrator and users) and {jobs} single jobs with their events "
            f"each, while {LISTENERS} streams hear of {CHANGED_AT_ONCE} changed jobs every "
            f"{_STEP_S:g} s.",
            "Resident set size as the kernel counts it, its highest value included (`VmHWM`). Growth "
            "is counted from an API at rest whose database has no jobs. 1 MB is 10^6 bytes.",
        ],
    )


@contextmanager
def _api(settings: Settings) -> Iterator[int]:
    env = {"AITNE_DATA_DIR": str(settings.data_dir), "AITNE_PORT": str(settings.port)}
    log = settings.data_dir / "api.log"
    with running([sys.executable, "-m", "aitne.api"], log, env) as process:
        eventually("the API's start", lambda: answers(settings.port))
        yield process.pid


def _use(settings: Settings, tokens: dict[str, str], pages: int, jobs: int) -> None:
    done = threading.Event()
    changing = threading.Thread(target=lambda: asyncio.run(_change(settings, done)))
    names = [jobs_table.ADMIN, *jobs_table.USERS[: READERS - 1]]

    def read(name: str) -> None:
        _read(Http(settings.port, {"Authorization": f"Bearer {tokens[name]}"}), pages, jobs)

    with (
        listening(settings.port, LISTENERS, tokens[jobs_table.ADMIN]),
        ThreadPoolExecutor(READERS) as pool,
    ):
        changing.start()
        try:
            for _ in pool.map(read, names):
                pass
        finally:
            done.set()
            changing.join()


def _read(http: Http, pages: int, jobs: int) -> None:
    """Read the history from the newest job on, repeatedly, and then single jobs."""
    seen: list[str] = []
    views = ["", "&state=QUEUED", "&state=FAILED&state=COMPLETED", "&q=resnet-77"]
    cursors: dict[str, str] = {}
    for number in range(pages):
        # Mostly the whole list, so that all of it is read.
        view = views[number % 8 if number % 8 < len(views) else 0]
        after = f"&cursor={cursors[view]}" if view in cursors else ""
        page = _get(http, f"/api/v1/jobs?limit={PAGE}{view}{after}")
        seen += [job["id"] for job in page["items"]]
        if page["next_cursor"] is None:
            cursors.pop(view, None)
        else:
            cursors[view] = page["next_cursor"]
    for job_id in _spread(seen, jobs):
        _get(http, f"/api/v1/jobs/{job_id}")
        _get(http, f"/api/v1/jobs/{job_id}/events")


def _spread(ids: Sequence[str], count: int) -> Sequence[str]:
    return ids[:: max(1, len(ids) // count)][:count]


def _get(http: Http, path: str) -> dict[str, object]:
    status, body = http.get(path)
    if status != 200:
        raise BenchmarkError(f"GET {path} was answered {status}: {body[:300]!r}")
    found: dict[str, object] = json.loads(body)
    return found


async def _change(settings: Settings, done: threading.Event) -> None:
    """Change batches of live jobs, as a controller does, until `done` is set."""
    store = Store(settings.database_url)
    await store.start()
    try:
        leader = Leader(store, NAME)
        await leader.acquire()
        ids = [job.id for job in await store.list_live_jobs()]
        step = 0
        while not done.is_set():
            start = step * CHANGED_AT_ONCE % len(ids)
            changes = JobChanges(message=f"Waits for resources ({step}).")
            moves = [
                TransitionRequest(job, None, changes)
                for job in ids[start : start + CHANGED_AT_ONCE]
            ]
            await store.apply_transitions(moves, epoch=leader.epoch)
            step += 1
            await asyncio.sleep(_STEP_S)
    finally:
        await store.close()


def _memory(pid: int, what: str) -> float:
    """Return one field of `/proc/<pid>/status`, such as VmRSS, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024 / _MB
    raise BenchmarkError(f"the kernel does not say what process {pid} uses")


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
