"""A platform that is installed from a wheel, upgraded to the next release, and returned from it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.client import Client
from aitne.core.jobs.states import JobState
from tests.support import realtime
from tests.support.absence import AbsenceMeter
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform, run_platform
from tests.support.releases import build_wheel, install_wheel, next_release
from tests.support.waiting import eventually

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.platform,
    pytest.mark.timeout(1_800),
    realtime.PLATFORM,
]

COUNTING = {
    "commands": ["i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"],
    "resources": {"cpu": 1, "memory": "64M"},
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[RunningPlatform]:
    """A platform that runs from its own virtual environment, without a source tree."""
    root = tmp_path_factory.mktemp("installed")
    platform = RunningPlatform(root)
    platform.command = [str(install_wheel(root / "aitne", wheel))]
    with run_platform(platform):
        yield platform


def upgrade(platform: RunningPlatform, *arguments: str) -> tuple[int, list[dict[str, object]]]:
    """Run the command; its exit status and the documents that it wrote."""
    where = ["--data-dir", str(platform.data_dir), "--yes", "--json"]
    done = platform.aitne("admin", "upgrade", *arguments, *where, timeout_s=900)
    decoder, text, documents = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    return done.returncode, [*documents, {"errors": done.stderr}]


def test_upgrade_and_rollbacks_keep_session_and_job(
    installed: RunningPlatform, wheel: Path
) -> None:
    client = Client(url=installed.url, token=installed.token)
    session = client.sessions.wait_ready(client.sessions.start("jupyterlab").id)
    job = client.jobs.create(COUNTING)
    assert session.url is not None

    def version() -> str:
        return installed.aitne("--version").stdout.split()[-1]

    with Notebook(installed.url, installed.token, session.url) as notebook:
        notebook.start_kernel()
        notebook.execute("x = 42")

        def work_goes_on() -> None:
            eventually("the platform is ready", installed.ready, 60)
            eventually("the route is there", notebook.reachable)
            notebook.connect()
            assert notebook.execute("x") == "42"
            size = len(b"".join(client.jobs.logs(job.id)))
            eventually("the job writes", lambda: len(b"".join(client.jobs.logs(job.id))) > size)
            states = {each.id: each.state for each in client.jobs.list()}
            assert states == {session.id: JobState.READY, job.id: JobState.RUNNING}

        present = version()
        failing = next_release(wheel, "0.2.0", migration="raise RuntimeError('it fails half-way')")
        status, said = upgrade(installed, "--wheel", str(failing))
        assert status == 1
        assert "0.1.0 is in use again" in json.dumps(said)
        assert version() == present
        work_goes_on()

        exits = "from aitne.local_system import held_process_start; held_process_start.wait_for_release(); raise SystemExit('it does not start')"
        silent = next_release(wheel, "0.2.1", api=exits)
        status, said = upgrade(installed, "--wheel", str(silent))
        assert status == 1
        assert "Restoring the backup" in json.dumps(said)
        assert version() == present
        work_goes_on()

        status, said = upgrade(installed, "--wheel", str(next_release(wheel, "0.4.0")))
        assert status != 0
        assert "Upgrade to 0.2 first" in json.dumps(said)

        status, said = upgrade(installed, "--version", "0.2.9")
        assert status == 1
        assert "Nothing that runs has changed" in json.dumps(said)
        assert version() == present

        with AbsenceMeter(installed.url) as absence:
            status, said = upgrade(installed, "--wheel", str(next_release(wheel, "0.2.2")))
        assert status == 0, said
        assert said[-2]["release"] == "0.2.2"
        assert version() == "0.2.2"
        work_goes_on()
        log.info("The portal was away for %.1f s.", absence.longest_s)
    client.sessions.stop(session.id)
    client.jobs.cancel(job.id)
