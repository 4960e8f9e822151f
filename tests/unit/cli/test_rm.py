"""``aitne rm``: what is deleted is named before, and each outcome after."""

from __future__ import annotations

from tests.support.fake_api import FakeApi
from tests.support.fake_api import job as job_view
from tests.unit.cli.conftest import Aitne

IDS = [f"3b7a1f00-0000-4000-8000-00000000000{n}" for n in range(2)]


def jobs_of(api: FakeApi) -> None:
    sizes = (3 << 30, None)
    for job_id, size in zip(IDS, sizes, strict=True):
        view = job_view("COMPLETED", id=job_id, name=f"j{job_id[-1]}", folder_bytes=size)
        api.on("GET", f"/jobs/{job_id}", view)


def test_question_states_the_number_and_the_space(aitne: Aitne, api: FakeApi) -> None:
    jobs_of(api)
    refused = aitne("rm", *IDS)
    assert refused.status == 2
    assert "Delete these 2 jobs" in refused.err
    assert "3 GiB, 1 not measured" in refused.err
    assert "--yes" in refused.err
    assert not api.sent("POST", "/jobs:delete")


def test_jobs_are_deleted_and_refusals_explained(aitne: Aitne, api: FakeApi) -> None:
    jobs_of(api)
    items = [
        {"id": IDS[0], "outcome": "requested", "name": "j0", "state": "COMPLETED", "reason": None},
        {"id": IDS[1], "outcome": "not_ended", "name": "j1", "state": "RUNNING", "reason": "No."},
    ]
    api.on("POST", "/jobs:delete", {"requested": 1, "items": items})
    done = aitne("delete", *IDS, "--yes")
    assert done.status == 1
    assert "j0: is deleted" in done.err
    assert "j1: not deleted. No." in done.err
    (sent,) = api.sent("POST", "/jobs:delete")
    assert sent.json == {"ids": IDS}
    assert aitne("rm", *IDS, "--yes", "--json").json == items
