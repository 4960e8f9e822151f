from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from aitne.core.errors import Conflict, IdempotencyConflict, InvalidInput, NotFound
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.job import Job, JobFilter, JobType
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.store import Store
from aitne.store.new_jobs import Idempotency, NewJob
from aitne.store.paging import encode_cursor
from tests.contract.store.conftest import Clock
from tests.support.jobs import CREATED_AT, make_array, make_job, make_session, make_spec

NASTY = 'it\'s "quoted"\n$(touch x) `y` #SBATCH --uid=0 \\ %_ 🚀 \u202e \x07'


def at(minutes: float) -> datetime:
    return CREATED_AT + timedelta(minutes=minutes)


async def create(store: Store, *jobs: Job) -> None:
    for job in jobs:
        await store.create_job(job)


async def names(store: Store, visible_to: str | None = None, **where: object) -> list[str]:
    page = await store.list_jobs(JobFilter.model_validate(where), visible_to=visible_to)
    assert page.total == len(page.items)
    return [job.name for job in page.items]


async def test_a_job_comes_back_as_it_was(store: Store, clock: Clock) -> None:
    job = make_job(
        name=NASTY,
        spec=make_spec(
            name=NASTY,
            env={"A": "nul \0 inside", "B": NASTY},
            commands=(NASTY,),
            parameters={"i": 1, "f": 0.5, "b": True, "s": NASTY},
            retry={"max": 2, "on": ["failed", "lost"]},
            after=(uuid4(),),
        ),
        nodes=("n1", "n2"),
        exit_code=3,
        signal=9,
        reason=TerminationReason.FAILED,
        message=NASTY,
        **{
            field: clock.pass_(1)
            for field in Job.model_fields
            if field.endswith("_at") and field != "created_at"
        },
    )
    created = await store.create_job(job)
    assert created.job == job
    assert not created.replayed
    found = await store.get_job(job.id)
    assert found == job
    assert found.created_at.utcoffset() == timedelta(0)


async def test_a_session_comes_back_with_its_apps(store: Store) -> None:
    job = make_session()
    await create(store, job)
    assert await store.get_job(job.id) == job


async def test_no_such_job(store: Store) -> None:
    with pytest.raises(NotFound, match=r"The job .* does not exist"):
        await store.get_job(uuid4())


async def test_an_id_is_used_once(store: Store) -> None:
    job = make_job()
    await create(store, job)
    with pytest.raises(Conflict, match="already"):
        await create(store, job)
    assert (await store.get_outbox_depth())[0] == 1


async def test_an_array_has_a_row_for_each_task(store: Store) -> None:
    array, tasks = make_array("3,1,7%2")
    await store.create_job(array, tasks[::-1])
    assert await store.list_array_tasks(array.id) == tasks
    assert [task.array_task_id for task in tasks] == [1, 3, 7]
    assert await names(store, top_level_only=True) == [array.name]
    assert len(await names(store, array_job_id=array.id)) == 3
    assert (await store.get_outbox_depth())[0] == 1, "one submission for all of them"


async def test_an_array_is_stored_whole_or_not_at_all(store: Store) -> None:
    array, tasks = make_array("0-2")
    with pytest.raises(Conflict):
        await store.create_job(array, [*tasks, tasks[0]])
    assert await names(store) == []
    assert await store.get_last_event_id() == 0


class TestIdempotency:
    KEY = Idempotency(owner="ada", key="k 🗝", request_hash="h1")

    async def test_the_same_request_gets_the_same_job(self, store: Store) -> None:
        first = await store.create_job(make_job(), idempotency=self.KEY)
        again = await store.create_job(make_job(), idempotency=self.KEY)
        assert (first.replayed, again.replayed) == (False, True)
        assert again.job == first.job
        assert (await store.get_outbox_depth())[0] == 1

    async def test_idempotency_key_with_different_request_is_refused(self, store: Store) -> None:
        await store.create_job(make_job(), idempotency=self.KEY)
        other = self.KEY.model_copy(update={"request_hash": "h2"})
        with pytest.raises(IdempotencyConflict, match="new key"):
            await store.create_job(make_job(), idempotency=other)
        assert len(await names(store)) == 1

    async def test_a_replay_is_found_before_the_request_is_judged_again(self, store: Store) -> None:
        assert await store.find_replays([self.KEY]) == {}
        job = (await store.create_job(make_job(), idempotency=self.KEY)).job
        unused = self.KEY.model_copy(update={"key": "unused"})
        assert await store.find_replays([unused, self.KEY]) == {self.KEY.key: job}
        assert await store.find_replays([self.KEY.model_copy(update={"owner": "bob"})]) == {}
        with pytest.raises(IdempotencyConflict):
            await store.find_replays([self.KEY.model_copy(update={"request_hash": "h2"})])

    async def test_jobs_that_are_stored_together_replay_those_whose_key_is_used(
        self, store: Store
    ) -> None:
        first = (await store.create_job(make_job(name="first"), idempotency=self.KEY)).job
        again, new, keyless = make_job(name="again"), make_job(name="new"), make_job(name="keyless")
        created = await store.create_jobs(
            [
                NewJob(new, idempotency=self.KEY.model_copy(update={"key": "k2"})),
                NewJob(again, idempotency=self.KEY),
                NewJob(keyless),
            ]
        )
        assert [(each.job.id, each.replayed) for each in created] == [
            (new.id, False),
            (first.id, True),
            (keyless.id, False),
        ]
        assert sorted(await names(store)) == ["first", "keyless", "new"]
        assert (await store.get_outbox_depth())[0] == 3
        kinds = [event.kind for event in await store.list_events_after(0)]
        assert kinds.count("job.created") == 3

    async def test_of_jobs_that_are_stored_together_none_stays_if_one_cannot(
        self, store: Store
    ) -> None:
        there = make_job()
        await store.create_job(there)
        with pytest.raises(Conflict, match="already exists"):
            await store.create_jobs([NewJob(make_job(name="other")), NewJob(there)])
        assert len(await names(store)) == 1
        assert (await store.get_outbox_depth())[0] == 1

    async def test_a_key_is_its_owners(self, store: Store) -> None:
        await store.create_job(make_job(), idempotency=self.KEY)
        other = self.KEY.model_copy(update={"owner": "bob", "request_hash": "h2"})
        assert not (await store.create_job(make_job(owner="bob"), idempotency=other)).replayed

    async def test_a_request_that_failed_leaves_its_key_free(self, store: Store) -> None:
        job = make_job()
        await create(store, job)
        with pytest.raises(Conflict):
            await store.create_job(job, idempotency=self.KEY)
        assert not (await store.create_job(make_job(), idempotency=self.KEY)).replayed

    async def test_of_requests_at_the_same_time_one_makes_the_job(
        self, store: Store, other: Store
    ) -> None:
        made = await asyncio.gather(
            *(
                which.create_job(make_job(), idempotency=self.KEY)
                for _ in range(6)
                for which in (store, other)
            )
        )
        assert len({created.job.id for created in made}) == 1
        assert sum(not created.replayed for created in made) == 1
        assert len(await names(store)) == 1

    async def test_the_second_waits_while_the_first_is_in_flight(
        self, store: Store, other: Store
    ) -> None:
        """The first one's transaction is held open until the second has certainly begun to wait."""
        job, held, release = make_job(), asyncio.Event(), asyncio.Event()
        claim = store._insert_idempotency_keys

        async def slow_claim(*args: object) -> Job | None:
            result = await claim(*args)  # type: ignore[arg-type]
            held.set()
            await release.wait()
            return result

        store._insert_idempotency_keys = slow_claim  # type: ignore[method-assign]
        first = asyncio.create_task(store.create_job(job, idempotency=self.KEY))
        await held.wait()
        second = asyncio.create_task(other.create_job(make_job(), idempotency=self.KEY))
        done, _ = await asyncio.wait([second], timeout=0.3)
        assert not done
        release.set()
        assert (await first).job == job
        assert (await second).job == job
        assert (await second).replayed


class TestList:
    async def test_newest_first(self, store: Store) -> None:
        await create(store, *(make_job(name=f"j{n}", created_at=at(n)) for n in (2, 0, 1)))
        assert await names(store) == ["j2", "j1", "j0"]
        assert [job.name for job in await store.list_live_jobs()] == ["j0", "j1", "j2"]
        other = make_job(name="other", owner="bob")
        await create(store, other)
        assert [job.id for job in await store.list_live_jobs(owner="bob")] == [other.id]

    async def test_filters(self, store: Store) -> None:
        await create(
            store,
            make_job(name="a", created_at=at(3), owner="bob"),
            make_job(name="b", created_at=at(2), project="nlp", state="RUNNING"),
            make_session(name="c", created_at=at(1), state="READY"),
        )
        assert await names(store, owner="bob") == ["a"]
        assert await names(store, project="nlp") == ["b"]
        assert await names(store, type=JobType.SESSION) == ["c"]
        assert await names(store, states=["RUNNING", "READY"]) == ["b", "c"]
        assert await names(store, states=["RUNNING"], owner="bob") == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("%", ["100%"]),
            ("_", ["a_b"]),
            ("\\", ["back\\slash"]),
            ("BACK", ["back\\slash"]),
            ("straße", ["STRASSE", "Straße"]),
            ("'; DROP TABLE jobs; --", []),
            ("", ["STRASSE", "Straße", "axb", "a_b", "back\\slash", "100%"]),
        ],
    )
    async def test_a_name_is_searched_for_literally(
        self, store: Store, text: str, expected: list[str]
    ) -> None:
        stored = ["100%", "back\\slash", "a_b", "axb", "Straße", "STRASSE"]
        await create(store, *(make_job(name=n, created_at=at(i)) for i, n in enumerate(stored)))
        assert await names(store, name_contains=text) == expected

    async def test_a_user_sees_own_jobs_and_those_of_the_projects(self, store: Store) -> None:
        for user, project in (("ada", "vision"), ("bob", "vision"), ("eve", "other")):
            await store.create_user(
                User(name=user, default_project=project, created_at=CREATED_AT),
                None,
                Project(name=project, created_at=CREATED_AT),
            )
        await create(
            store,
            make_job(name="ada's", owner="ada", created_at=at(3)),
            make_job(name="bob's", owner="bob", created_at=at(2)),
            make_job(name="bob's own", owner="bob", project="secret", created_at=at(1)),
        )
        assert await names(store, "ada") == ["ada's", "bob's"]
        assert await names(store, "bob") == ["ada's", "bob's", "bob's own"]
        assert await names(store, "eve") == []
        assert await names(store, "nobody") == []
        assert len(await names(store, None)) == 3

    async def test_pages_show_each_job_once_while_new_ones_come(self, store: Store) -> None:
        # Many at one time, so that the id has to decide.
        jobs = [make_job(created_at=at(n // 4)) for n in range(20)]
        await create(store, *jobs)
        seen, cursor = [], None
        for round_ in range(10):
            page = await store.list_jobs(JobFilter(), visible_to=None, cursor=cursor, limit=3)
            assert page.total == 20 + round_
            seen += page.items
            cursor = page.next_cursor
            await create(store, make_job(created_at=at(100 + round_)))
            if cursor is None:
                break
        assert [job.id for job in seen] == [
            job.id for job in sorted(jobs, key=lambda job: (job.created_at, job.id), reverse=True)
        ]

    async def test_the_last_page_has_no_cursor(self, store: Store) -> None:
        await create(store, make_job(), make_job())
        page = await store.list_jobs(JobFilter(), visible_to=None, limit=2)
        assert (len(page.items), page.next_cursor, page.total) == (2, None, 2)

    @pytest.mark.parametrize(
        "cursor",
        [
            *("", "x", "🗝", "!!!!", "bnVsbA", "e30", "A" * 5_000),
            *(
                encode_cursor("jobs"),
                encode_cursor("users", "ada"),
                encode_cursor("jobs", "x", "y"),
            ),
            *(
                encode_cursor("jobs", "2026-01-01", "9"),
                encode_cursor("jobs", "2026-01-01T00:00:00", "1" * 32),
            ),
        ],
    )
    async def test_a_cursor_that_is_not_ours(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidInput, match="cursor") as caught:
            await store.list_jobs(JobFilter(), visible_to=None, cursor=cursor)
        assert caught.value.problems[0].field == "cursor"

    async def test_counts_leave_out_the_row_that_stands_for_an_array(self, store: Store) -> None:
        array, tasks = make_array("0-2")
        await store.create_job(array, tasks)
        await create(store, make_job(state="QUEUED"))
        assert await store.count_jobs_by_state() == {"PENDING_SUBMIT": 3, "QUEUED": 1}
        assert await store.count_jobs_by_state(live_only=True) == {"PENDING_SUBMIT": 3, "QUEUED": 1}

    async def test_a_users_live_rows_are_counted(self, store: Store) -> None:
        array, tasks = make_array("0-2")
        await store.create_job(array, tasks)
        await create(store, make_job(state="COMPLETED"), make_job(owner="bob"))
        assert await store.count_live_jobs(array.owner) == 4
        assert await store.count_live_jobs("bob") == 1
        assert await store.count_live_jobs("nobody") == 0
