"""Usage of projects over HTTP: budgets, months, reports, waiting jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from aitne.core.jobs.states import JobState
from aitne.core.models.limits import Usage
from aitne.services.projects.project_balance import months_between
from tests.support.jobs import make_job
from tests.support.project_stage import API, ada_leads, ok, watch
from tests.support.stage import Stage, open_stage

JOB = {"name": "train", "project": "vision", "commands": ["true"]}


def used(gpu_hours: float, month_user: str = "ada") -> Usage:
    seconds = round(gpu_hours * 3_600)
    return Usage(
        account="vision",
        user=month_user,
        cpu_s=2 * seconds,
        gpu_s=seconds,
        gpu_s_by_type={"h200": seconds},
        jobs=3,
    )


async def test_a_budget_that_begins_long_ago_is_counted_within_minutes(stage: Stage) -> None:
    _, root = await ada_leads(stage)
    budget = {"gpu_hours": 500, "period": "total", "since": "2024-01"}
    async with stage.client(root) as client:
        await ok(client.put(f"{API}/projects/vision/budget", json=budget))
    stage.clock.now = datetime(2026, 3, 2, tzinfo=UTC)
    months = months_between("2024-01", "2026-03")
    looks, kept = watch(stage, 1), []
    for _ in range(7):
        await looks.check_projects()
        kept.append(len(await stage.store.list_usage_months(months)))
        stage.clock.move(60)
    assert kept == [7, 13, 19, 25, 27, 27, 27]
    asked_at = (await stage.store.list_usage_months(months))["2026-03"].taken_at
    assert asked_at == datetime(2026, 3, 2, 0, 4, tzinfo=UTC), "then every five minutes again"


async def test_a_spent_budget_takes_no_new_jobs_until_it_begins_anew(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e9)
    assert lease is not None
    async with stage.client(root) as client:
        await ok(client.put(f"{API}/projects/vision/budget", json={"cpu_hours": 10}))
    looks = watch(stage, lease.epoch)
    async with stage.client(ada) as client:
        unknown = await ok(client.get(f"{API}/projects/vision/balance"))
        assert (unknown["as_of"], unknown["cpu_hours"]["used"]) == (None, None)
        await ok(client.post(f"{API}/jobs", json=JOB), 201)
        stage.accounting.used = [used(2)]
        await looks.check_projects()
        balance = await ok(client.get(f"{API}/projects/vision/balance"))
        cpu, gpu = balance["cpu_hours"], balance["gpu_hours"]
        assert (cpu["budget"], cpu["used"], cpu["remaining"]) == (10, 4.0, 6.0)
        assert (gpu["budget"], gpu["used"], gpu["remaining"]) == (None, 2.0, None)
        assert (balance["until"], balance["exhausted"]) == ("2026-04-01T00:00:00Z", False)
        stage.accounting.used = [used(7)]
        stage.clock.move(300)
        await looks.check_projects()
        refused = await client.post(f"{API}/jobs", json=JOB)
        message = refused.json()["problems"][0]["message"]
        assert "14 of 10 CPU-hours; it resets on 2026-04-01" in message
        assert (await ok(client.get(f"{API}/projects/vision/balance")))["exhausted"]
        stage.clock.now = datetime(2026, 4, 1, 1, tzinfo=UTC)
        await ok(client.post(f"{API}/jobs", json=JOB), 201)


async def test_spent_budget_applies_to_other_slurm_account(tmp_path: Path, blank: Path) -> None:
    elsewhere = {"name": "train", "commands": ["true"], "slurm": {"account": "vision"}}
    async with open_stage(tmp_path, blank, scheduler="slurm") as stage:
        ada, root = await ada_leads(stage)
        eve = await stage.token(await stage.add_user("eve"))
        async with stage.client(root) as client:
            await ok(client.put(f"{API}/projects/vision/budget", json={"cpu_hours": 10}))
        lease = await stage.store.acquire_lease("controller", "test", duration_s=1e9)
        assert lease is not None
        stage.accounting.used = [used(7)]
        await watch(stage, lease.epoch).check_projects()
        for token, said in ((ada, "14 of 10 CPU-hours"), (eve, "you are no member of it")):
            async with stage.client(token) as client:
                refused = await client.post(f"{API}/jobs", json=elsewhere)
            (problem,) = refused.json()["problems"]
            assert problem["field"] == "slurm.account"
            assert said in problem["message"]


async def test_a_budget_in_all_counts_every_month(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e9)
    assert lease is not None
    budget = {"gpu_hours": 100, "period": "total", "since": "2025-12"}
    async with stage.client(root) as client:
        await ok(client.put(f"{API}/projects/vision/budget", json=budget))
        future = {**budget, "since": "2026-04"}
        refused = await client.put(f"{API}/projects/vision/budget", json=future)
        assert refused.status_code == 422
    stage.accounting.used = [used(5)]
    looks = watch(stage, lease.epoch)
    for _ in range(4):  # the present month and one of those before at a time
        await looks.check_projects()
        stage.clock.move(300)
    async with stage.client(ada) as client:
        balance = await ok(client.get(f"{API}/projects/vision/balance"))
        assert (balance["gpu_hours"]["used"], balance["until"]) == (20.0, None)
        # A new month, of which nothing is known yet, forgets none of those before.
        stage.clock.now = datetime(2026, 4, 1, 0, 0, 1, tzinfo=UTC)
        balance = await ok(client.get(f"{API}/projects/vision/balance"))
    assert balance["gpu_hours"]["used"] == 20.0
    asked = {start.month for start, _ in stage.accounting.asked}
    assert asked == {12, 1, 2, 3}


async def test_a_months_report(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    stage.accounting.used = [used(2.5), used(1, "bob")]
    month = datetime(2026, 2, 10, tzinfo=UTC)
    for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 100):
        job = make_job(project="vision", owner="ada").model_copy(
            update={
                "id": uuid4(),
                "state": JobState.COMPLETED,
                "submitted_at": month,
                "allocated_at": month + timedelta(minutes=minutes),
                "ended_at": month + timedelta(hours=3),
            }
        )
        await stage.store.create_job(job)
    async with stage.client(ada) as client:
        found = await ok(client.get(f"{API}/projects/vision/report?month=2026-02"))
        text = await client.get(f"{API}/projects/vision/usage.csv?month=2026-02&since=2026-01")
        month = await client.get(f"{API}/projects/vision/usage.csv?month=13")
        sentence = "13 is not a month: write YYYY-MM, such as 2026-03."
        assert (month.status_code, month.json()["detail"]) == (422, sentence)
        for wrong in ("since=2026-13", "month=2026-01&since=2026-02", "since=2020-01"):
            refused = await client.get(f"{API}/projects/vision/usage.csv?{wrong}")
            assert refused.json()["problems"][0]["field"] == "since"
    assert found["total"]["gpu_hours_by_type"] == {"h200": 3.5}
    assert (found["total"]["jobs"], found["source"]) == (6, "scheduler")
    [wait] = found["waits"]
    assert (wait["jobs"], wait["median_s"], wait["p90_s"], wait["max_s"]) == (
        *(10, 330.0, 540.0, 6000.0),
    )
    assert found["outcomes"] == {"COMPLETED": 10}
    assert [each["month"] for each in found["months"]][-2:] == ["2026-01", "2026-02"]
    assert found["months"][-1]["gpu_hours"] == 3.5
    assert len(found["months"]) == 12
    assert text.headers["content-type"].startswith("text/csv")
    assert 'filename="usage-vision-2026-01-2026-02.csv"' in text.headers["content-disposition"]
    assert text.text.splitlines()[:2] == [
        "month,project,user,jobs,cpu_hours,gpu_hours,gpu_hours_h200,energy_j",
        "2026-01,vision,ada,3,5.0,2.5,2.5,",
    ]
    assert len(text.text.splitlines()) == 5


async def test_usage_without_accounts_is_what_the_platform_ran(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    stage.accounting.none = True
    hour = timedelta(hours=1)
    began = stage.clock.now - 2 * hour
    update = {"id": uuid4(), "state": JobState.COMPLETED, "allocated_at": began}
    job = make_job(project="vision", owner="ada").model_copy(
        update={**update, "ended_at": began + hour}
    )
    await stage.store.create_job(job)
    async with stage.client(ada) as client:
        found = await ok(client.get(f"{API}/projects/vision/report"))
    assert found["source"] == "platform"
    [row] = found["rows"]
    assert (row["user"], row["jobs"], row["cpu_hours"]) == ("ada", 1, float(job.spec.resources.cpu))


async def test_waiting_jobs_of_project_are_listed_with_reason(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    start = stage.clock.now + timedelta(hours=2)
    for number in range(3):
        job = make_job(project="vision", owner="bob").model_copy(
            update={
                "id": uuid4(),
                "state": JobState.QUEUED,
                "message": "Waits for the limit of project vision.",
                "submitted_at": stage.clock.now,
                "created_at": stage.clock.now + timedelta(seconds=number),
                "expected_start_at": start,
            }
        )
        await stage.store.create_job(job)
    done = make_job(project="vision", owner="bob", state=JobState.COMPLETED)
    await stage.store.create_job(done.model_copy(update={"id": uuid4()}))
    async with stage.client(ada) as client:
        page = await ok(client.get(f"{API}/projects/vision/waiting?limit=2"))
        assert (page["total"], len(page["items"])) == (3, 2)
        rest = await ok(
            client.get(f"{API}/projects/vision/waiting?limit=2&cursor={page['next_cursor']}")
        )
        assert (len(rest["items"]), rest["next_cursor"]) == (1, None)
    [first, _] = page["items"]
    assert first["reason"] == "Waits for the limit of project vision."
    assert (first["owner"], datetime.fromisoformat(first["expected_start_at"])) == ("bob", start)


async def test_a_report_adds_up_the_energy_that_was_measured(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    stage.clock.now = datetime(2026, 3, 2, tzinfo=UTC)
    measured = used(1, "bob").model_copy(update={"energy_j": 7_200})
    for rows, each, total in (
        ([used(1), measured], [None, 7_200], 7_200),
        ([used(1)], [None], None),
    ):
        stage.accounting.used = rows
        await watch(stage, 1).check_projects()
        stage.clock.move(600)
        async with stage.client(ada) as client:
            report = await ok(client.get(f"{API}/projects/vision/report?month=2026-03"))
        assert [row["energy_j"] for row in report["rows"]] == each
        assert report["total"]["energy_j"] == total
