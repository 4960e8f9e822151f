"""Continue, on the whole platform: however a session ended, the next one has its folder and what was open."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.client import Client
from aitne.client.records import Job
from aitne.core.errors import Conflict
from tests.integration.hub.test_platform import browser
from tests.support import realtime
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(600),
    realtime.PLATFORM,
]

LAYOUT = {
    "data": {
        "layout-restorer:data": {"main": {"dock": {"widgets": ["notebook:work.ipynb"]}}},
        "notebook:work.ipynb": {"data": {"path": "work.ipynb", "factory": "Notebook"}},
    },
    "metadata": {"id": "default"},
}
ENDS = {
    "walltime": ({"max_duration": "45s"}, "TIMED_OUT", "timed_out"),
    "idle": ({"inactivity_duration": "15s"}, "CANCELLED", "idle"),
    "failure": ({}, "FAILED", "failed"),
}


def workspace(job: Job) -> str:
    return f"{str(job.url).removesuffix('/lab')}/lab/api/workspaces/default"


def xsrf(client: httpx.Client) -> dict[str, str]:
    cookies = [c for c in client.cookies.jar if c.name == "_xsrf" and c.path.startswith("/user")]
    return {"X-XSRFToken": str(cookies[-1].value)}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(end, marks=pytest.mark.long(third=2) if end == "walltime" else ())
        for end in ENDS
    ],
)
def test_session_continues_with_its_saved_state(
    platform: RunningPlatform, tmp_path: Path, end: str
) -> None:
    fields, state, reason = ENDS[end]
    (tmp_path / "work.ipynb").write_text(
        '{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}'
    )
    client = Client(platform.url, platform.token)
    first = client.sessions.start(
        "jupyterlab",
        job_file={"parameters": {"folder": str(tmp_path)}, "env": {"MINE": "1"}, **fields},
    )
    first = client.sessions.wait_ready(first.id, timeout_s=120)
    with browser(platform) as http:
        assert http.get(str(first.url)).status_code == 200
        kept = http.put(workspace(first), json=LAYOUT, headers=xsrf(http))
        assert kept.status_code == 204, kept.text
    with pytest.raises(Conflict, match="has not ended"):
        client.sessions.resume(first.id)
    if end == "failure":
        with Notebook(platform.url, platform.token, str(first.url)) as notebook:
            notebook.start_kernel()
            server = int(notebook.execute("import os; os.getppid()"))
        os.kill(server, signal.SIGKILL)
    over = client.jobs.wait(first.id, timeout_s=180)
    assert (over.state, over.reason) == (state, reason), f"{over.message}\n{platform.logs()}"

    again = client.sessions.wait_ready(client.sessions.resume(first.id).id, timeout_s=120)
    assert again.continues == first.id
    assert (again.workdir, again.image, again.env) == (str(tmp_path), first.image, first.env)
    with browser(platform) as http:
        assert http.get(str(again.url)).status_code == 200
        found: dict[str, Any] = http.get(workspace(again)).json()
        assert found["data"] == LAYOUT["data"]
        files = http.get(f"{str(again.url).removesuffix('/lab')}/api/contents/").json()
        assert [each["name"] for each in files["content"]] == ["work.ipynb"]
    with pytest.raises(Conflict, match=again.id):
        client.sessions.resume(first.id)
    client.sessions.stop(again.id)
    client.jobs.wait(again.id, timeout_s=60)
