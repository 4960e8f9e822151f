"""Functions in jobs of a whole platform with the local scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

import aitne
from aitne import Client
from aitne.client.function_errors import JobCancelled, JobNotCompleted, JobTimedOut
from aitne.core.errors import NotFound
from tests.support import realtime
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]
SMALL = {"resources": {"cpu": 1, "memory": "64M"}, "max_duration": "2m"}
WAIT_S = 120.0


@pytest.fixture(scope="module", autouse=True)
def by_value() -> Iterator[None]:
    """Pickle the functions of this module with their code, as those of a notebook are."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def client(platform: RunningPlatform) -> Client:
    return Client(data_dir=platform.data_dir)


class Wrong(Exception):
    """An exception of the user's own."""


def divide(a: int, b: int) -> float:
    sys.stdout.write(f"dividing {a} by {b}\n")
    if b == 0:
        raise Wrong("not by zero")
    return a / b


def sleep(started: str) -> None:
    Path(started).touch()
    time.sleep(600)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def describe() -> tuple[str, int, bool]:
    here = aitne.job()
    aitne.notify(f"rank {here.rank} is here")
    return here.id, here.rank, 0 < (here.time_left_s or 0) <= 120


def square(x: int) -> int:
    return x * x


def test_function_returns_raises_and_leaves_a_log(client: Client) -> None:
    good = client.functions.submit(divide, 84, 2, **SMALL)
    bad = client.functions.submit(divide, 84, 0, **SMALL)
    assert good.result(WAIT_S) == 42
    assert good.log() == "dividing 84 by 2\n"
    with pytest.raises(Wrong, match="not by zero") as caught:
        bad.result(WAIT_S)
    assert 'raise Wrong("not by zero")' in str(caught.value.__cause__)
    assert bad.job().state == "FAILED"


def test_ends_of_a_job_are_errors(client: Client, tmp_path: Path) -> None:
    killed = client.functions.submit(kill_itself, **SMALL)
    late = client.functions.submit(sleep, str(tmp_path / "late"), **{**SMALL, "max_duration": "2s"})
    cancelled = client.functions.submit(sleep, str(tmp_path / "started"), **SMALL)
    eventually("the function runs", (tmp_path / "started").exists)
    assert cancelled.cancel()
    with pytest.raises(JobCancelled):
        cancelled.result(WAIT_S)
    assert cancelled.cancelled()
    assert not cancelled.cancel()
    with pytest.raises(JobNotCompleted, match=r"SIGKILL|137|signal 9"):
        killed.result(WAIT_S)
    with pytest.raises(JobTimedOut):
        late.result(WAIT_S)


def test_map_runs_at_most_so_many_at_once(client: Client, tmp_path: Path) -> None:
    def count(item: int) -> int:
        mine = tmp_path / f"running-{item}"
        mine.touch()
        running = len(list(tmp_path.glob("running-*")))
        mine.unlink()
        return running + 100 * item

    futures = client.functions.map(count, range(20), max_parallel=2, **SMALL)
    assert set(aitne.as_completed(futures, WAIT_S)) == set(futures)
    values = futures.results(WAIT_S)
    assert [value // 100 for value in values] == list(range(20))
    assert max(value % 100 for value in values) <= 2


def test_ranks_know_where_they_are(client: Client) -> None:
    future = client.functions.submit(describe, ranks_per_node=2, **SMALL)
    results = future.results(WAIT_S)
    assert results == [(future.job_id, 0, True), (future.job_id, 1, True)], future.log()
    eventually(
        "the messages of both ranks have come",
        lambda: (
            {note.text for note in client.notifications.list() if note.kind == "job_message"}
            == {"rank 0 is here", "rank 1 is here"}
        ),
    )


def test_future_is_found_after_a_restart_by_its_owner_alone(
    client: Client, platform: RunningPlatform, tmp_path: Path
) -> None:
    """A process submits and ends; another one, a script with a class of its own, reads the result."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            import aitne

            def shout(word):
                return word.upper()

            if sys.argv[1:]:
                print(aitne.future(sys.argv[1]).result(120))
            else:
                print(aitne.submit(shout, "found", max_duration="2m", resources={"memory": "64M"}).job_id)
            """
        )
    )

    def run(*arguments: str) -> str:
        env = {**platform.env, "AITNE_DATA_DIR": str(platform.data_dir)}
        done = subprocess.run(
            [sys.executable, str(program), *arguments],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    job_id = run()
    assert run(job_id) == "FOUND"
    client.users.create("bob")
    stranger = Client(platform.url, platform.token_of("bob"))
    with pytest.raises(NotFound):
        stranger.functions.future(job_id)
