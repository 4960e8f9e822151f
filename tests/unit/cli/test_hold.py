"""Commands for jobs that wait."""

from __future__ import annotations

from tests.support.fake_api import JOB_ID, FakeApi, job
from tests.unit.cli.conftest import Aitne


def test_waiting_job_is_held_and_released_and_an_array_throttled(
    aitne: Aitne, api: FakeApi
) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    for verb, outcome in (("hold", "is held"), ("release", "is released")):
        api.on("POST", f"/jobs/{JOB_ID}/{verb}", job())
        assert outcome in aitne(verb, JOB_ID).err
        assert aitne(verb, JOB_ID, "--json").json["id"] == JOB_ID
    api.on("PATCH", f"/jobs/{JOB_ID}", job())
    for text, limit in (("8", 8), ("none", None)):
        assert aitne("throttle", JOB_ID, text).status == 0
        assert api.sent("PATCH", f"/jobs/{JOB_ID}")[-1].json == {"max_parallel": limit}
    assert "no number of tasks" in aitne("throttle", JOB_ID, "many").err
