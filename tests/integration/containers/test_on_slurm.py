"""Jobs and sessions in the shipped images on a real Slurm, as the user who submits them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam
from typing import Any

import pytest

from aitne.client import Client
from aitne.core.errors import InvalidInput
from tests.support import realtime
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform

pytestmark = [
    pytest.mark.long(third=3),
    pytest.mark.platform,
    pytest.mark.timeout(1_500),
    realtime.PLATFORM,
]

SMALL = {"resources": {"cpu": 1, "memory": "512M"}, "max_duration": "20m"}
SHOW = 'id -un; echo "$SLURM_JOB_ID"; touch ~/from-a-container "$AITNE_DATASETS/alices/new"'


@pytest.fixture(scope="module")
def data(on_slurm: RunningPlatform, alice: Client) -> Iterator[str]:
    """A dataset of alice's own, in her home, readable by her alone."""
    home = Path(getpwnam("alice").pw_dir)
    folder = home / "alices-data"
    folder.mkdir(mode=0o700)
    (folder / "one").write_text("1\n")
    for path in (folder, folder / "one"):
        os.chown(path, getpwnam("alice").pw_uid, getpwnam("alice").pw_gid)
    done = on_slurm.aitne(
        *("dataset", "add", "alices", str(folder), "--version", "1", "--yes"),
        env={"AITNE_TOKEN": on_slurm.token_of("alice"), "AITNE_URL": on_slurm.url},
    )
    assert done.returncode == 0, done.stderr
    yield "alices"
    shutil.rmtree(folder)
    (home / "from-a-container").unlink(missing_ok=True)


def job_file(**fields: Any) -> dict[str, Any]:
    return {"type": "job", "image": "base", "commands": [SHOW], **SMALL, **fields}


def test_a_job_runs_as_alice_and_cannot_change_its_data(alice: Client, data: str) -> None:
    job = alice.jobs.create(job_file(datasets=[data]))
    ended = alice.jobs.wait(job.id, timeout_s=120)
    log = b"".join(alice.jobs.logs(job.id)).decode().splitlines()
    assert log[0] == "alice"
    assert log[1] == ended.scheduler_id
    assert "Read-only file system" in log[2]
    made = Path(getpwnam("alice").pw_dir, "from-a-container")
    assert made.stat().st_uid == getpwnam("alice").pw_uid


def test_a_session_works_in_its_image_as_alice(
    on_slurm: RunningPlatform, alice: Client, data: str
) -> None:
    fields = {"image": "jupyter", "datasets": [data], **SMALL}
    session = alice.sessions.start("jupyterlab", job_file=fields)
    ready = alice.sessions.wait_ready(session.id, timeout_s=180)
    assert (ready.image, ready.runtime) == ("jupyter:1.1.0", "apptainer")
    url = alice.sessions.open(session.id)
    with Notebook(on_slurm.url, on_slurm.token_of("alice"), url) as notebook:
        notebook.start_kernel()
        said = notebook.execute("import getpass, sys; print(getpass.getuser(), sys.prefix)")
        assert said.split() == ["alice", "/opt/jupyter"]
    alice.sessions.stop(session.id)
    assert alice.jobs.wait(session.id, timeout_s=60).ended


def test_docker_is_refused_with_the_reason(alice: Client) -> None:
    with pytest.raises(InvalidInput, match=r"cgroup"):
        alice.jobs.create(job_file(container={"runtime": "docker"}))


def test_job_of_other_user_cannot_use_dataset_without_grant(
    on_slurm: RunningPlatform, alice: Client, data: str
) -> None:
    bob = Client(on_slurm.url, on_slurm.token_of("bob"))
    alice.datasets.revoke(f"{data}:1", "ml")
    try:
        assert data not in [found.name for found in bob.datasets.list()]
        with pytest.raises(InvalidInput, match="there is no dataset"):
            bob.jobs.create(job_file(datasets=[data]))
    finally:
        alice.datasets.grant(f"{data}:1", "ml")
