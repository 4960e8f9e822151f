from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

from aitne.api.job_view_cache import JobViewCache
from aitne.api.job_views import JobPage, JobView
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobSpec, JobType
from aitne.core.models.user import Actor, User

JOB = Job(
    id=UUID(int=1),
    owner="ada",
    project="engines",
    type=JobType.JOB,
    name='Größe "1"\n',
    spec=JobSpec(type=JobType.JOB, name="x", project="engines", parameters={"rate": 0.5}),
    state=JobState.QUEUED,
    created_at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
)
ADA = Actor(
    user=User(name="ada", default_project="engines", created_at=JOB.created_at),
    projects=frozenset({"engines"}),
)


def test_written_job_equals_job_view() -> None:
    text = JobViewCache().render_job(JOB, ["cancel"], ADA)
    assert json.loads(text) == JobView.from_job(JOB, ["cancel"]).model_dump(mode="json")


def test_a_page_is_valid_with_and_without_jobs() -> None:
    written = JobViewCache()
    items = [written.render_job(JOB, ["cancel"], ADA), written.render_job(JOB, [], ADA)]
    page = JobPage.model_validate_json(written.render_page(items, 'a"b', 7))
    assert [item.actions for item in page.items] == [["cancel"], []]
    assert (page.next_cursor, page.total) == ('a"b', 7)
    assert json.loads(written.render_page([], None, 0)) == {
        "items": [],
        "next_cursor": None,
        "total": 0,
    }


def test_a_change_is_seen_and_the_oldest_goes() -> None:
    written = JobViewCache(most=2)
    first = written.render_job(JOB, [], ADA)
    changed = JOB.model_copy(update={"state": JobState.RUNNING, "version": 2})
    assert b'"RUNNING"' in written.render_job(changed, [], ADA)
    # The same version is not written anew; that is what is being saved.
    assert written.render_job(JOB.model_copy(update={"name": "other"}), [], ADA) is first
    written.render_job(changed.model_copy(update={"version": 3}), [], ADA)
    assert b'"other"' in written.render_job(JOB.model_copy(update={"name": "other"}), [], ADA)
