"""Creating: what is filled in, what is refused, and that nothing is stored then."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from aitne.core.errors import Conflict, IdempotencyConflict, InvalidInput, NotAllowed, NotFound
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.access_token import Scope
from aitne.core.models.announcement import Maintenance
from aitne.core.models.cluster import NodeState
from aitne.core.models.job import DistributedSpec, JobFilter, JobType
from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import GpuRequest, Resources
from aitne.store.action_outbox import OutboxKind
from tests.unit.services.conftest import ADA, BOB, EVE, ROOT, START, Bench, make_actor, make_node

HOSTILE = "$(touch pwned) `id`\n#SBATCH --uid=0\n'\"\\ 🦊"


def job_file(**fields: object) -> JobFile:
    if "template" not in fields and fields.get("type") != "session":
        fields = {"commands": ["true"], **fields}
    return JobFile.model_validate(fields)


async def test_a_small_job_gets_every_default(bench: Bench) -> None:
    job = await bench.create(commands=["python train.py", "echo done"])
    assert (job.owner, job.project, job.cluster) == ("ada", "vision", "local")
    assert (job.state, job.created_at) == (JobState.PENDING_SUBMIT, START)
    assert job.name == "python train.py"
    assert job.message == "Waits for submission to the scheduler."
    spec = job.spec
    assert (spec.type, spec.image, spec.runtime, spec.template) == (
        JobType.JOB,
        "bare",
        "bare",
        None,
    )
    assert spec.resources == Resources(nodes=1, cpu=1, memory_bytes=2 << 30)
    assert spec.max_duration_s == 4 * 3_600
    assert spec.retry.max == 0
    assert await bench.store.get_job(job.id) == job
    (item,) = await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=9)
    assert (item.kind, item.job_id) == (OutboxKind.SUBMIT, job.id)


async def test_hostile_text_comes_back_unchanged(bench: Bench) -> None:
    job = await bench.create(name=HOSTILE, commands=[HOSTILE], env={"X": HOSTILE})
    stored = await bench.jobs.get(ADA, job.id)
    assert (stored.name, stored.spec.commands, stored.spec.env) == (
        HOSTILE,
        (HOSTILE,),
        {"X": HOSTILE},
    )
    assert "pwned" not in await bench.jobs.script(ADA, job.id)


async def test_a_template_brings_its_parts(bench: Bench) -> None:
    job = await bench.create(
        template="batch", parameters={"command": HOSTILE}, env={"MINE": "1"}, resources={"cpu": 2}
    )
    assert (job.name, job.spec.template, job.spec.template_version) == (
        "Batch job",
        "batch",
        "1.0.0",
    )
    assert job.spec.commands == ('exec bash -c "$AITNE_PARAM_COMMAND"',)
    assert job.spec.env["AITNE_PARAM_COMMAND"] == HOSTILE
    assert job.spec.env["MINE"] == "1"
    assert job.spec.parameters == {"command": HOSTILE, "folder": "~"}
    assert (job.spec.workdir, job.spec.max_duration_s) == ("~", 3_600)
    assert (job.spec.resources.cpu, job.spec.resources.memory_bytes) == (2, 1 << 30)


async def test_a_session_without_a_template_is_jupyterlab(bench: Bench) -> None:
    job = await bench.create(type="session")
    assert (job.type, job.spec.template, job.name) == (JobType.SESSION, "jupyterlab", "JupyterLab")
    assert [app.name for app in job.spec.apps] == ["lab", "tensorboard"]
    assert {app.kind for app in job.spec.apps} == {"jupyterhub"}


async def test_a_file_that_names_only_the_template_takes_its_type(bench: Bench) -> None:
    assert (await bench.create(template="jupyterlab")).type is JobType.SESSION


async def test_an_array_has_a_row_per_task(bench: Bench) -> None:
    job = await bench.create(array="0-4:2%2")
    assert job.is_array
    tasks = await bench.store.list_array_tasks(job.id)
    assert [task.array_task_id for task in tasks] == [0, 2, 4]
    assert len({task.id for task in tasks} | {job.id}) == 4
    assert {task.array_job_id for task in tasks} == {job.id}


async def test_after_names_jobs_that_exist_and_can_still_complete(bench: Bench) -> None:
    first = await bench.create()
    assert (await bench.create(after=[first.id, first.id])).spec.after == (first.id,)
    await bench.walk(first, JobState.FAILED, reason=TerminationReason.FAILED)
    with pytest.raises(InvalidInput, match="ended FAILED, so this one would never start"):
        await bench.create(after=[first.id])
    with pytest.raises(InvalidInput, match="there is no job"):
        await bench.create(after=[uuid4()])


async def test_dependencies_must_be_possible(bench: Bench) -> None:
    failed, done, array = [await bench.create() for _ in range(2)] + [
        await bench.create(array="0-1")
    ]
    await bench.walk(failed, JobState.FAILED, reason=TerminationReason.FAILED)
    states = (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
    await bench.walk(done, *states, JobState.COMPLETED, reason=TerminationReason.COMPLETED)
    job = await bench.create(afterany=[failed.id, done.id], afternotok=[failed.id])
    assert (job.spec.afterany, job.spec.afternotok) == ((failed.id, done.id), (failed.id,))
    assert (await bench.create(aftercorr=[array.id], array="0-1")).spec.aftercorr == (array.id,)
    retried = await bench.create(array="0-1", retry={"max": 1})
    for fields, message in (
        ({"afternotok": [done.id]}, "completed, so this one would never start"),
        ({"afterany": [uuid4()]}, "there is no job"),
        ({"aftercorr": [array.id]}, "only the tasks of an array"),
        ({"aftercorr": [failed.id], "array": "0-1"}, "is no array"),
        ({"aftercorr": [retried.id], "array": "0-1"}, "has retries"),
    ):
        with pytest.raises(InvalidInput, match=message):
            await bench.create(**fields)


async def test_a_job_of_another_project_cannot_be_waited_for(bench: Bench) -> None:
    theirs = await bench.create(EVE)
    with pytest.raises(InvalidInput, match="there is no job"):
        await bench.create(after=[theirs.id])


@pytest.mark.parametrize(
    ("fields", "field", "message", "allowed"),
    [
        ({"resources": {"gpu": 5}}, "resources.gpu", "the largest node has 4 a100", "a100:4"),
        ({"resources": {"gpu": "h100:1"}}, "resources.gpu", "of type h100", "a100:4"),
        ({"resources": {"cpu": 9}}, "resources.cpu", "the largest node has 8", "1 to 8"),
        ({"resources": {"memory": "1T"}}, "resources.memory", "has 32 GiB", "at most 32 GiB"),
        (
            {"resources": {"nodes": 2}},
            "resources.nodes",
            "2 nodes requested; the job can use 1",
            "1",
        ),
        ({"resources": {"nodes": 5}}, "resources.nodes", "more than the limit", "at most 4"),
        (
            {"template": "jupiterlab"},
            "template",
            "did you mean 'jupyterlab'?",
            "batch, distributed-train, jupyterlab",
        ),
        ({"image": "pytorhc"}, "image", "did you mean 'pytorch'?", "bare, pytorch"),
        ({"project": "speech"}, "project", "that you are a member of", "vision"),
        ({"commands": []}, "commands", "needs at least one", None),
        ({"parameters": {"x": 1}}, "parameters.x", "only a template has parameters", "none"),
        ({"max_duration": "2d"}, "max_duration", "longer than allowed", "at most 1d"),
        ({"array": "0-20"}, "array", "has 21 tasks", "at most 20 tasks"),
        ({"type": "session", "array": "0-1"}, "array", "cannot be an array", "only for jobs"),
        (
            {"type": "session", "template": "batch", "parameters": {"command": "x"}},
            "type",
            "template batch is a job",
            "job",
        ),
        ({"template": "batch"}, "parameters.command", "a value is needed", "text"),
        (
            {"template": "batch", "parameters": {"command": "x", "comand": "x"}},
            "parameters.comand",
            "did you mean 'command'?",
            "command, folder",
        ),
        (
            {"template": "batch", "parameters": {"command": "x"}, "commands": ["y"]},
            "commands",
            "has its own",
            "none with a template",
        ),
        (
            {"template": "batch", "parameters": {"command": "x"}, "args": ["y"]},
            "args",
            "has no commands",
            "only with commands",
        ),
        (
            {"commands": [], "notebook": {"path": "a.ipynb"}, "script_path": "run.sh"},
            "script_path",
            "has no commands",
            "only with commands",
        ),
        (
            {"type": "session", "resources": {"memory": "1M"}},
            "resources.memory",
            "offer",
            "512 MiB",
        ),
        (
            {"type": "session", "resources": {"nodes": 65}},
            "resources.nodes",
            "more than",
            "at most 64",
        ),
    ],
)
async def test_invalid_job_is_refused_and_not_stored(
    bench: Bench, fields: dict[str, object], field: str, message: str, allowed: str | None
) -> None:
    for attempt in (bench.jobs.plan, bench.jobs.create):
        with pytest.raises(InvalidInput) as caught:
            await attempt(ADA, job_file(**fields))
        problem = {each.field: each for each in caught.value.problems}[field]
        assert message in problem.message
        assert (allowed is None) == (problem.allowed is None)
        assert (allowed or "") in (problem.allowed or "")
    assert (await bench.store.list_jobs(JobFilter(), visible_to=None)).total == 0
    assert await bench.store.get_outbox_depth() == (0, 0.0)
    assert await bench.store.get_last_event_id() == await _events_of_nodes(bench)


async def _events_of_nodes(bench: Bench) -> int:
    return max(event.id for event in await bench.store.list_events_after(0))


async def test_all_problems_are_named_at_once(bench: Bench) -> None:
    wrong = job_file(image="nope", resources={"gpu": 9, "cpu": 99}, max_duration="9d")
    with pytest.raises(InvalidInput) as caught:
        await bench.jobs.create(ADA, wrong)
    assert {problem.field for problem in caught.value.problems} == {
        "image",
        "resources.gpu",
        "resources.cpu",
        "max_duration",
    }


async def test_without_a_snapshot_of_the_nodes_a_job_is_let_through(bench: Bench) -> None:
    await bench.nodes()
    assert (await bench.create(resources={"gpu": "h100:8"})).spec.resources.gpu == GpuRequest(
        count=8, type="h100"
    )


async def test_an_administrator_may_use_any_project_that_exists(bench: Bench) -> None:
    assert (await bench.create(ROOT, project="speech")).project == "speech"
    with pytest.raises(InvalidInput, match="no project nowhere"):
        await bench.create(ROOT, project="nowhere")


async def test_a_reading_token_may_plan_and_not_create(bench: Bench) -> None:
    reader = make_actor(scopes=frozenset({Scope.READ}))
    assert (await bench.jobs.plan(reader, job_file())).fits
    with pytest.raises(NotAllowed, match="lacks the scope write"):
        await bench.jobs.create(reader, job_file())


async def test_the_limit_of_live_jobs_counts_tasks(bench: Bench) -> None:
    await bench.create(array="0-19")
    with pytest.raises(Conflict, match="You have 21 jobs and tasks that wait or run"):
        await bench.create(array="0-9")
    await bench.create(BOB, array="0-9")


async def test_plan_says_what_would_happen(bench: Bench) -> None:
    plan = await bench.jobs.plan(ADA, job_file(name=HOSTILE, resources={"gpu": 2}))
    assert (plan.fits, plan.starts_now, plan.pending_reason) == (True, True, None)
    assert plan.spec.name == HOSTILE
    assert "1 CPU, 2 GiB of memory, 2 GPUs" in plan.script
    assert "pwned" not in plan.script


async def test_plan_says_why_it_would_wait(bench: Bench) -> None:
    await bench.nodes(make_node(cpu_used=7))
    plan = await bench.jobs.plan(ADA, job_file(resources={"cpu": 4}))
    assert not plan.starts_now
    assert plan.pending_reason == "Waits for 3 CPUs to become free."
    first = await bench.create()
    plan = await bench.jobs.plan(ADA, job_file(after=[first.id]))
    assert plan.pending_reason == "Waits for one other job to complete."
    await bench.nodes(make_node(), make_node("node02"))
    plan = await bench.jobs.plan(ADA, job_file(resources={"nodes": 2}))
    assert plan.warnings == (
        "The commands run on the first of the 2 nodes; they must start the programs on the others "
        "themselves, or the job file must set distributed.",
    )
    nodes: dict[str, Any] = {"resources": {"nodes": 2}}
    for command, warned in (("srun python train.py", False), ("# srun is not used", True)):
        plan = await bench.jobs.plan(ADA, job_file(commands=[f"set -e\n{command}"], **nodes))
        assert bool(plan.warnings) == warned, command


@pytest.mark.parametrize("kind", ["after", "afterany", "afternotok", "aftercorr", "singleton"])
async def test_plan_gives_no_start_to_what_waits_for_another_job(bench: Bench, kind: str) -> None:
    bench.scheduler.starts_at = bench.clock()
    first = await bench.create(name="chain", array="0-1" if kind == "aftercorr" else None)
    bench.clock.now += timedelta(seconds=1)
    fields: dict[str, Any] = {"singleton": True} if kind == "singleton" else {kind: [first.id]}
    if kind == "aftercorr":
        fields["array"] = "0-1"
    plan = await bench.jobs.plan(ADA, job_file(name="chain", **fields))
    assert plan.pending_reason == "Waits for one other job to complete."
    assert (plan.starts_now, plan.expected_start_at) == (False, None)
    alone = await bench.jobs.plan(ADA, job_file(name="other"))
    assert alone.expected_start_at == bench.scheduler.starts_at


async def test_plan_without_slurm_says_that_there_is_no_srun(bench: Bench) -> None:
    await bench.nodes(make_node())
    plan = await bench.jobs.plan(ADA, job_file(resources={"tasks_per_node": 2}))
    (note,) = plan.warnings
    assert note.startswith("srun belongs to Slurm, and this platform's scheduler is local")
    assert (await bench.jobs.plan(ADA, job_file(resources={"cpu": 2}))).warnings == ()


async def test_the_same_key_gives_the_same_job(bench: Bench) -> None:
    both = await asyncio.gather(
        *(bench.jobs.create(ADA, job_file(), idempotency_key="k") for _ in range(2))
    )
    assert both[0].job.id == both[1].job.id
    assert sorted(created.replayed for created in both) == [False, True]
    with pytest.raises(IdempotencyConflict):
        await bench.jobs.create(ADA, job_file(name="other"), idempotency_key="k")
    assert not (await bench.jobs.create(BOB, job_file(), idempotency_key="k")).replayed


async def test_a_repeated_request_is_not_judged_anew(bench: Bench) -> None:
    file = job_file(resources={"cpu": 8})
    first = await bench.jobs.create(ADA, file, idempotency_key="k")
    await bench.nodes()
    await bench.nodes(make_node().model_copy(update={"cpu_total": 2}))
    again = await bench.jobs.create(ADA, file, idempotency_key="k")
    assert (again.job.id, again.replayed) == (first.job.id, True)
    with pytest.raises(InvalidInput):
        await bench.jobs.create(ADA, file, idempotency_key="other")


async def test_while_a_maintenance_holds_new_work_the_plan_leaves_the_scheduler_alone(
    bench: Bench,
) -> None:
    """Its nodes may be drained, so that it would refuse what it takes when the maintenance is over."""
    bench.scheduler.refuses = "no node has all of it"
    with pytest.raises(InvalidInput, match="no node has all of it"):
        await bench.jobs.plan(ADA, job_file())
    window = Maintenance(starts_at=START, created_at=START, created_by="root", message="Switches")
    await bench.store.set_maintenance(window)
    plan = await bench.jobs.plan(ADA, job_file())
    assert plan.pending_reason == "Maintenance (Switches): new jobs are held until it is over."


async def test_where_all_nodes_that_could_are_drained_the_plan_says_so_and_the_job_would_wait(
    bench: Bench,
) -> None:
    bench.scheduler.refuses = "no node has all of it"
    drained = {"state": NodeState.DRAINED, "reason": "new disks [root]"}
    small = make_node("node02").model_copy(update={"cpu_total": 1})
    await bench.nodes(make_node().model_copy(update=drained), small)
    plan = await bench.jobs.plan(ADA, job_file(resources={"cpu": 2}))
    assert (plan.fits, plan.starts_now) == (True, False)
    said = "Waits for a node to come back into service: node01 is drained (new disks [root])."
    assert plan.pending_reason == said


async def test_ranks_are_resolved_checked_and_shown(bench: Bench) -> None:
    await bench.nodes(make_node(), make_node("node02"))
    two = job_file(resources={"nodes": 2, "cpu": 2}, distributed={"ranks_per_node": 2})
    plan = await bench.jobs.plan(ADA, two)
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=2)
    assert plan.warnings == ()
    crowded = job_file(resources={"nodes": 2, "cpu": 1}, distributed={"ranks_per_node": 2})
    (warning,) = (await bench.jobs.plan(ADA, crowded)).warnings
    assert warning.startswith("2 ranks share 1 CPU on each node")
    alone = await bench.jobs.plan(ADA, job_file(distributed={}))
    assert alone.spec.distributed == DistributedSpec(ranks_per_node=1)
    for wrong, field in (
        ({"backend": "mpi"}, "distributed.backend"),
        ({"backend": "pigeon"}, "distributed.backend"),
        ({"compress": "zip"}, "distributed.compress"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await bench.create(resources={"nodes": 2}, distributed=wrong)
        assert [problem.field for problem in refused.value.problems] == [field]


async def test_session_on_several_nodes_has_ranks_on_each(bench: Bench) -> None:
    await bench.nodes(make_node(), make_node("node02"))
    session = {"type": "session", "commands": []}
    plan = await bench.jobs.plan(ADA, job_file(**session, resources={"nodes": 2}))
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=1)
    assert plan.spec.resources.nodes == 2
    on_gpus = {"nodes": 2, "gpu": 2, "cpu": 2}
    plan = await bench.jobs.plan(ADA, job_file(**session, resources=on_gpus))
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=2)
    two = {"ranks_per_node": 2}
    plan = await bench.jobs.plan(ADA, job_file(**session, resources={"cpu": 2}, distributed=two))
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=2)
    assert (await bench.jobs.plan(ADA, job_file(**session))).spec.distributed is None
    with pytest.raises(InvalidInput) as refused:
        await bench.create(**session, resources={"nodes": 65})
    assert "resources.nodes" in [problem.field for problem in refused.value.problems]


async def test_session_whose_template_has_one_node_has_no_ranks(bench: Bench) -> None:
    await bench.nodes(make_node(), make_node("node02"))
    board = {"template": "tensorboard", "type": "session", "commands": []}
    for wrong, field in (
        ({"resources": {"nodes": 2}}, "resources.nodes"),
        ({"distributed": {"ranks_per_node": 2}}, "distributed"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await bench.create(**board, **wrong)
        assert field in [problem.field for problem in refused.value.problems]


async def test_a_templates_form_says_how_many_ranks(bench: Bench) -> None:
    await bench.nodes(make_node())
    given = {"script": "train.py", "ranks_per_node": 3, "backend": "gloo"}
    file = {"template": "distributed-train", "commands": [], "parameters": given}
    plan = await bench.jobs.plan(ADA, job_file(**file))
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=3, backend="gloo")
    plan = await bench.jobs.plan(ADA, job_file(**file, distributed={"ranks_per_node": 1}))
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=1, backend="gloo")
    del given["ranks_per_node"]
    plan = await bench.jobs.plan(ADA, job_file(**file))
    assert plan.spec.distributed == DistributedSpec(ranks_per_node=1, backend="gloo")


async def test_missing_profile_error_explains_its_origin(bench: Bench) -> None:
    job = await bench.create(distributed={"ranks_per_node": 2})
    with pytest.raises(NotFound, match="has no profile: the ranks of a program that uses aitne"):
        await bench.jobs.profile(ADA, job.id)
    with pytest.raises(NotFound, match="does not exist"):
        await bench.jobs.profile(EVE, job.id)
