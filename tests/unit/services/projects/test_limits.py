"""Limits, told to who submits: what could never run, and what a job would wait for."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.errors import InvalidInput
from aitne.core.models.job import JobSpec
from aitne.core.models.job_file import JobFile
from aitne.core.models.limits import AssociationUse, Gauge, LimitUsage, QosUse
from aitne.services.projects.limit_checks import check_job_limits
from tests.support.jobs import make_job
from tests.unit.services.conftest import ADA, Bench

GPUS, USED = "gres/gpu", Gauge(limit=None, used=0)
BASE = (
    AssociationUse(account="root"),
    AssociationUse(account="vision", parent="root"),
    AssociationUse(account="vision", user="alice"),
    AssociationUse(account="vision", user="bob"),
)


def look(*changed: AssociationUse, qos: tuple[QosUse, ...] = ()) -> LimitUsage:
    known = {(each.account, each.user): each for each in (*BASE, *changed)}
    return LimitUsage(
        enforced=frozenset({"associations", "limits", "qos"}),
        associations=tuple(known.values()),
        qos=qos,
    )


def use(account: str, user: str | None = None, **fields: Any) -> AssociationUse:
    above = {"root": None, "vision": "root"}[account] if user is None else None
    return AssociationUse(account=account, user=user, parent=above, **fields)


def spec(gpu: str | int = 0, nodes: int = 1, array: str | None = None, **fields: Any) -> JobSpec:
    from aitne.core.models.resources import ResourcesFile

    file = ResourcesFile.model_validate({"gpu": gpu})
    made = make_job(project="vision").spec
    resources = made.resources.model_copy(update={"gpu": file.gpu, "nodes": nodes})
    return made.model_copy(
        update={"resources": resources, "project": "vision", "array": array, **fields}
    )


VISION = use("vision", tres={GPUS: Gauge(limit=8, used=6)})
ALICE = use("vision", "alice", tres={GPUS: Gauge(limit=None, used=4)})
BOB = use("vision", "bob", tres={GPUS: Gauge(limit=None, used=2)})


def test_pending_reason_names_users_of_limit() -> None:
    verdict = check_job_limits(spec(gpu=4), look(VISION, ALICE, BOB), "alice")
    assert verdict.problems == ()
    assert verdict.waits_for == (
        "Waits for the limit of project vision: 6 of 8 GPUs in use by alice 4, bob 2."
    )
    assert check_job_limits(spec(gpu=2), look(VISION, ALICE, BOB), "alice").waits_for is None


def test_more_than_the_limit_never_runs() -> None:
    [problem] = check_job_limits(spec(gpu=5, nodes=2), look(VISION), "alice").problems
    assert (problem.field, problem.allowed) == ("resources.gpu", "at most 8")
    assert "10 GPUs" in problem.message
    assert "project vision may use 8 at once" in problem.message


def test_a_members_own_limit_is_named_as_such() -> None:
    mine = use("vision", "alice", tres={GPUS: Gauge(limit=4, used=3)})
    assert check_job_limits(spec(gpu=2), look(VISION, mine), "alice").waits_for == (
        "Waits for the limit of alice in project vision: 3 of 4 GPUs in use."
    )
    assert check_job_limits(spec(gpu=2), look(VISION, mine), "bob").waits_for is None


def test_the_tightest_limit_is_told() -> None:
    for both in (
        (use("vision", per_job={GPUS: 3}), use("vision", "alice", per_job={GPUS: 1})),
        (use("vision", per_job={GPUS: 1}), use("vision", "alice", per_job={GPUS: 3})),
    ):
        [problem] = check_job_limits(spec(gpu=4), look(*both), "alice").problems
        assert problem.allowed == "at most 1"
    inherited = look(use("vision", max_wall_s=60), use("vision", "alice", max_wall_s=60))
    [problem] = check_job_limits(spec(max_duration_s=61), inherited, "alice").problems
    assert problem.message == "it is longer than project vision may use"


def test_limits_above_the_project_hold_too() -> None:
    root = use("root", tres={GPUS: Gauge(limit=7, used=6)})
    said = check_job_limits(spec(gpu=2), look(root, ALICE, BOB), "bob").waits_for
    assert said == "Waits for the limit of project root: 6 of 7 GPUs in use by alice 4, bob 2."


@pytest.mark.parametrize(
    ("limit", "job", "field"),
    [
        ({"tres": {"gres/gpu:h200": Gauge(limit=1, used=0)}}, {"gpu": "h200:2"}, "resources.gpu"),
        ({"tres": {"cpu": Gauge(limit=1, used=0)}}, {"nodes": 2}, "resources.cpu"),
        ({"tres": {"node": Gauge(limit=1, used=0)}}, {"nodes": 2}, "resources.nodes"),
        ({"tres": {"mem": Gauge(limit=1, used=0)}}, {}, "resources.memory"),
        ({"per_job": {GPUS: 1}}, {"gpu": 2}, "resources.gpu"),
        ({"max_wall_s": 60}, {"max_duration_s": 61}, "max_duration"),
        ({"grp_jobs": Gauge(limit=0, used=0)}, {}, "project"),
        ({"grp_submitted": Gauge(limit=9, used=8)}, {"array": "0-1"}, "array"),
        ({"max_submitted": Gauge(limit=9, used=9)}, {}, "project"),
    ],
)
def test_each_limit_names_its_field(limit: dict[str, Any], job: dict[str, Any], field: str) -> None:
    [problem] = check_job_limits(spec(**job), look(use("vision", **limit)), "alice").problems
    assert problem.field == field


def test_job_that_fits_limits_exactly_passes() -> None:
    full = use(
        "vision",
        tres={GPUS: Gauge(limit=2, used=0), "node": Gauge(limit=1, used=0)},
        per_job={GPUS: 2},
        grp_submitted=Gauge(limit=3, used=1),
    )
    verdict = check_job_limits(spec(gpu=2, array="0-1"), look(full), "alice")
    assert (verdict.problems, verdict.waits_for) == ((), None)


def test_a_type_is_not_guessed() -> None:
    typed = use("vision", tres={"gres/gpu:h200": Gauge(limit=0, used=0)})
    assert check_job_limits(spec(gpu=2), look(typed), "alice").problems == ()


def test_jobs_and_budgets_are_waited_for() -> None:
    busy = use("vision", grp_jobs=Gauge(limit=3, used=3))
    assert "3 of 3 jobs run" in (check_job_limits(spec(), look(busy), "alice").waits_for or "")
    spent = use("vision", tres_minutes={GPUS: Gauge(limit=600, used=660)})
    said = check_job_limits(spec(gpu=1), look(spent), "alice").waits_for
    assert said == "Waits for the budget of project vision: 11 of 10 GPU-hours are used up."
    assert check_job_limits(spec(), look(spent), "alice").waits_for is None


def test_a_qos_has_limits_of_its_own() -> None:
    long = QosUse(
        name="long",
        tres={GPUS: Gauge(limit=4, used=3)},
        per_user={GPUS: 2},
        used_by={"alice": {GPUS: 1}, "bob": {GPUS: 2}},
        max_wall_s=3_600,
    )
    in_long = {"slurm": spec().slurm.model_copy(update={"qos": "long"})}
    said = check_job_limits(spec(gpu=2, **in_long), look(qos=(long,)), "alice").waits_for
    assert said == "Waits for the limit of QOS long: 3 of 4 GPUs in use by bob 2, alice 1."
    said = check_job_limits(spec(gpu=1, **in_long), look(qos=(long,)), "bob").waits_for
    assert said == "Waits for the limit of bob in QOS long: 2 of 2 GPUs in use."
    [problem] = check_job_limits(spec(gpu=3, **in_long), look(qos=(long,)), "alice").problems
    assert problem.field == "resources.gpu"
    [problem] = check_job_limits(
        spec(max_duration_s=3_601, **in_long), look(qos=(long,)), "alice"
    ).problems
    assert problem.field == "max_duration"
    assert check_job_limits(spec(gpu=3), look(qos=(long,)), "alice").problems == ()


def test_missing_association_is_reported_before_submission() -> None:
    [problem] = check_job_limits(spec(), look(), "eve").problems
    assert problem.field == "project"
    assert "aitne admin sync" in problem.message
    elsewhere = spec(slurm=spec().slurm.model_copy(update={"account": "physics"}))
    [problem] = check_job_limits(elsewhere, look(), "alice").problems
    assert (problem.field, problem.allowed) == ("slurm.account", "vision")


def test_limits_that_slurm_does_not_enforce_are_not_reported() -> None:
    assert check_job_limits(spec(gpu=99), LimitUsage(associations=(VISION,)), "eve").problems == ()
    loose = look(VISION).model_copy(update={"enforced": frozenset({"associations"})})
    assert check_job_limits(spec(gpu=99), loose, "alice").problems == ()


async def test_plan_and_create_say_it(bench: Bench) -> None:
    project = ADA.user.default_project
    known = (
        AssociationUse(account=project, tres={"cpu": Gauge(limit=2, used=1)}),
        AssociationUse(account=project, user="root", tres={"cpu": Gauge(limit=None, used=1)}),
    )
    seen = LimitUsage(enforced=frozenset({"limits"}), associations=known)
    await bench.store.save_limit_usage(seen, bench.clock(), epoch=bench.epoch)
    wide = JobFile.model_validate({"commands": ["true"], "resources": {"cpu": 3}})
    for verb in (bench.jobs.plan, bench.jobs.create):
        with pytest.raises(InvalidInput, match=f"project {project} may use 2") as refused:
            await verb(ADA, wide)
        assert refused.value.problems[0].field == "resources.cpu"
    narrow = JobFile.model_validate({"commands": ["true"], "resources": {"cpu": 2}})
    plan = await bench.jobs.plan(ADA, narrow)
    assert not plan.starts_now
    assert "1 of 2 CPUs in use by root 1" in (plan.pending_reason or "")
    assert (await bench.jobs.create(ADA, narrow)).job.spec.resources.cpu == 2


@pytest.mark.parametrize(
    ("limit", "job", "held", "allowed"),
    [
        ({"tres": {GPUS: Gauge(limit=4, used=1)}}, {"gpu": 4}, {"gpu": 1}, "at most 3"),
        ({"tres": {"cpu": Gauge(limit=2, used=1)}}, {"nodes": 2}, {}, "at most 1"),
        ({"grp_jobs": Gauge(limit=1, used=1)}, {}, {}, None),
        ({"max_jobs": Gauge(limit=1, used=1)}, {}, {}, None),
    ],
)
def test_job_that_must_run_beside_another_never_runs_where_the_limit_has_room_for_one(
    limit: dict[str, Any], job: dict[str, Any], held: dict[str, Any], allowed: str | None
) -> None:
    use_now = look(use("vision", **limit))
    assert check_job_limits(spec(**job), use_now, "alice").problems == (), (
        "the other job may end first"
    )
    [problem] = check_job_limits(spec(**job), use_now, "alice", spec(**held)).problems
    assert problem.allowed == allowed
    elsewhere = spec(**held).model_copy(update={"project": "maths"})
    assert check_job_limits(spec(**job), use_now, "alice", elsewhere).problems == ()
