"""TensorBoard as a session: behind the same login as JupyterLab, and with no port of its own.

Each user of this platform has a host of its own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.hub.test_platform import browser
from tests.support import local_names, realtime
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

EVENTS = Path(__file__).parents[2] / "assets" / "tensorboard" / "events.out.tfevents.scalars"


def test_the_curves_of_a_folder_are_shown_to_who_is_logged_in(
    platform: RunningPlatform, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    shutil.copy(EVENTS, tmp_path / "runs" / "first")
    folder = f"folder={tmp_path / 'runs'}"
    done = platform.aitne(
        *("session", "start", "tensorboard", "--param", folder, "--yes", "--wait", "--json")
    )
    assert done.returncode == 0, f"{done.stderr}\n{platform.logs()}"
    job = json.loads(done.stdout)
    board = job["url"]
    assert [each["name"] for each in job["entry_points"]] == ["tensorboard", "lab"]
    assert job["entry_points"][0]["url"] == board
    assert board.endswith("/tensorboard/")
    at = urlsplit(board)
    assert (at.hostname, at.port) == (f"{job['owner']}.localhost", platform.port + 1)
    with browser(platform) as client:
        page = client.get(board)
        assert page.status_code == 200
        assert "tb-webapp" in page.text
        assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
        assert client.get(board.rstrip("/")).url == board

        def tags() -> list[str]:
            found = client.get(f"{board}data/plugin/timeseries/tags").json()["scalars"]
            return list(found["runTagInfo"].get("first", ()))

        tag = eventually("its event file is read", tags)[0]
        asked = {"requests": json.dumps([{"plugin": "scalars", "tag": tag}])}
        answer = client.post(f"{board}data/plugin/timeseries/timeSeries", data=asked)
        assert answer.status_code == 200, answer.text
        assert answer.json()[0]["runToSeries"]["first"]
        another = {"Origin": "http://elsewhere.test"}
        refused = client.post(
            f"{board}data/plugin/timeseries/timeSeries", data=asked, headers=another
        )
        assert refused.status_code == 403
        assert client.get(board.replace("/tensorboard/", "/lab")).status_code == 200
    with local_names.browser() as stranger:
        assert str(stranger.get(board).url).startswith(f"{platform.url}/login")
        assert stranger.post(f"{board}data/runs").status_code == 403
    opened = platform.aitne("open", job["id"], "--app", "lab", "--print")
    assert urlsplit(opened.stdout.strip()).path.endswith("/lab")
    dialled = json.loads(platform.aitne("open", job["id"], "--json").stdout)
    assert dialled == {"url": board, "connect_to": f"127.0.0.1:{platform.port + 1}"}
    missing = platform.aitne("open", job["id"], "--app", "code", "--print")
    assert missing.returncode != 0
    assert "tensorboard, lab" in missing.stderr
    assert platform.aitne("stop", job["id"], "--yes").returncode == 0
