"""Tests of the Slurm adapters beyond the contract, with every supported release of Slurm."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from aitne.adapters.broker_scheduler import BrokerScheduler
from aitne.adapters.schedulers._slurm import job_comment, squeue_parser
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.adapters.schedulers.slurm import SlurmScheduler
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.ports.scheduler import SchedulerJob
from aitne_train.topology.hostlist import expand_hostlist
from tests.support import realtime
from tests.support.schedulers import Bench, change
from tests.support.slurm import run_as, sbatch, wait_ended
from tests.support.slurm_bench import cluster_of, slurm_says

pytestmark = realtime.SLURM

HOUR_S = 3_600


BAD = {
    "an unknown partition": ({"slurm": {"partition": "nope"}}, "slurm.partition", "nope"),
    "an unknown QOS": ({"slurm": {"qos": "nope"}}, "slurm.qos", "nope"),
    "an unknown account": ({"slurm": {"account": "nope"}}, "slurm.account", "nope"),
    "an unknown project": ({"project": "nope"}, "project", "nope"),
    "an unknown feature": ({"slurm": {"constraint": "nope"}}, "slurm.constraint", "nope"),
    "an unknown reservation": ({"slurm": {"reservation": "x"}}, "slurm.reservation", "x"),
    "an unknown signal": ({"slurm": {"signal": "FOO@10"}}, "slurm.signal", "FOO"),
    "5 GPUs on nodes with 4": (
        {"resources": {"gpu": {"count": 5}}},
        "resources.gpu",
        "resources.gpu: 5 is too much; the largest node of partition gpu has 4.",
    ),
    "an unknown type of GPU": (
        {"resources": {"gpu": {"count": 1, "type": "a100"}}},
        "resources.gpu",
        "1 of type a100 is too much",
    ),
    "a MIG profile that is not there": (
        {"resources": {"gpu": {"count": 1, "type": "1g.10gb"}}},
        "resources.gpu",
        "1 of type 1g.10gb is too much",
    ),
    "too many shards": (
        {"resources": {"gres": {"shard": 99}}},
        "resources.gres.shard",
        "99 is too much; the largest node of partition gpu has 16.",
    ),
    "an unknown GRES": ({"resources": {"gres": {"fpga": 1}}}, "resources.gres.fpga", "has 0"),
    "too many CPUs": ({"resources": {"cpu": 9}}, "resources.cpu", "has 8"),
    "too many nodes": ({"resources": {"nodes": 5}}, "resources.nodes", "has 4"),
    "too much memory": ({"resources": {"memory_bytes": 17_000 << 20}}, "resources.memory", "has "),
    "an unknown licence": ({"slurm": {"licenses": "nope:1"}}, "slurm.licenses", "nope"),
    "an unknown node": ({"slurm": {"exclude": "zz9"}}, "slurm.exclude", "zz9"),
    "a least time beyond the limit": (
        {"slurm": {"time_min": 2 * HOUR_S}, "time_limit_s": HOUR_S},
        "slurm.time_min",
        "must not be more than max_duration",
    ),
    "more time than the partition allows": (
        {"slurm": {"partition": "debug"}, "time_limit_s": HOUR_S},
        "max_duration",
        "max_duration: 1h is too much; partition debug allows 30m.",
    ),
    "an index beyond MaxArraySize": ({"array": "20000"}, "array", "20000"),
    "an option that the site does not open": (
        {"slurm": {"extra": ("--uid=0",)}},
        "slurm.extra",
        "--uid is not permitted",
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
async def test_bad_input_is_refused_with_field_and_limit(slurm: Bench, case: str) -> None:
    changes, field, words = BAD[case]
    facts = dict(changes)
    if "slurm" in facts:
        facts["slurm"] = SlurmOptions.model_validate(facts["slurm"])
    request = slurm.request("true", **facts)
    for ask in (slurm.scheduler.forecast, slurm.scheduler.submit):
        with pytest.raises(SchedulerRejected) as caught:
            await ask(request)
        assert (caught.value.field, words in str(caught.value)) == (field, True), caught.value
    assert not await slurm.find(request.job_id)


async def test_slurm_shows_the_script_and_its_arguments_where_it_can(slurm: Bench) -> None:
    number, _ = await slurm.submit("echo $#", command=("/opt/job.sh", "a b", "$(id)"))
    record = slurm_says(slurm, "scontrol", "show", "job", number)
    # The commands take the path of the file that they read, and 22.05's slurmrestd crashes.
    newer = not cluster_of(slurm).slurm_release.startswith("22.05")
    by_rest = isinstance(slurm.scheduler, SlurmScheduler)
    command = "/opt/job.sh" if by_rest and newer else "(null)"
    assert f"\n   Command={command}\n" in record
    assert (await slurm.wait_ended(number)).state is JobState.COMPLETED


async def test_a_file_name_with_a_way_out_is_refused(slurm: Bench) -> None:
    request = slurm.request("true", files={"../x": b""})
    with pytest.raises(SchedulerRejected) as caught:
        await slurm.scheduler.submit(request)
    assert caught.value.field == "files"
    assert not await slurm.find(request.job_id)


async def test_long_names_and_lines_of_sbatch_stay_data(slurm: Bench) -> None:
    name = "#SBATCH --nodes=3\n" * 120
    number, request = await slurm.submit("echo $SLURM_JOB_NUM_NODES", name=name[:2_000])
    assert (await slurm.wait_ended(number)).state is JobState.COMPLETED
    assert slurm.log(request) == "1\n"


async def test_all_of_a_job_file_reaches_slurm(slurm: Bench) -> None:
    first, _ = await slurm.submit("sleep 60")
    number, _ = await slurm.submit(
        "true",
        resources={
            "nodes": 2,
            "cpu": 3,
            "memory_bytes": 512 << 20,
            "gpu": {"count": 2, "type": "h200"},
        },
        time_limit_s=5_400,
        after=(first,),
        array="1-3%2",
        max_requeues=2,
        nodes=("n1",),
        exclude=("n3",),
        max_leaves=1,
        max_leaves_wait_s=30,
        slurm=SlurmOptions(
            partition="gpu",
            qos="normal",
            account="vision",
            constraint="h200&leaf1",
            exclusive=True,
            signal="USR1@120",
            exclude="n4",
            nice=7,
            time_min=1_800,
        ),
    )
    said = slurm_says(slurm, "scontrol", "--oneliner", "show", "job", number)
    facts = dict(re.findall(r"(\S+?)=(\S*)", said))
    assert facts["NumNodes"] == "2-2" or facts["NumNodes"] == "2"
    assert facts["CPUs/Task"] == "3"
    assert facts["MinMemoryNode"] == "512M"
    assert "gpu:h200:2" in facts["TresPerNode"]
    assert facts["TimeLimit"] == "01:30:00"
    assert f"afterok:{first}" in facts["Dependency"]
    assert facts["ArrayTaskThrottle"] == "2"
    assert facts["Requeue"] == "1"
    assert (facts["Partition"], facts["QOS"], facts["Account"]) == ("gpu", "normal", "vision")
    assert facts["Features"] == "h200&leaf1"
    assert facts["OverSubscribe"] == "NO"
    assert (facts["Nice"], facts["TimeMin"]) == ("7", "00:30:00")
    assert set(expand_hostlist(facts["ExcNodeList"])) == {"n3", "n4"}
    assert (facts["ReqNodeList"], facts["Switches"]) == ("n1", "1@00:00:30")
    # The options above need sbatch with some releases, these do not.
    options = SlurmOptions(nice=7, time_min=1_800)
    plain, _ = await slurm.submit("true", time_limit_s=5_400, hold=True, slurm=options)
    said = slurm_says(slurm, "scontrol", "--oneliner", "show", "job", plain)
    plain_facts = dict(re.findall(r"(\S+?)=(\S*)", said))
    assert (plain_facts["Nice"], plain_facts["TimeMin"]) == ("7", "00:30:00")
    assert plain_facts["Reason"] == "JobHeldUser"
    await slurm.cancel(plain)
    rows = await slurm.rows(number)
    assert [row.array_task_id for row in rows] == [1, 2, 3]
    assert {row.time_limit_s for row in rows} == {5_400}
    # A scheduler that has just looked at its nodes says that first.
    why = f"Waits for job {first} to complete."
    await slurm.until(number, lambda rows: {row.pending_reason for row in rows} == {why})


async def test_cancelled_waiting_task_leaves_the_record_of_its_array(slurm: Bench) -> None:
    number, request = await slurm.submit("true", array="0-2", hold=True)
    run = slurm.run(number)
    for index, left in ((1, {0, 2}), (0, {2})):
        slurm_says(slurm, "scancel", f"{number}_{index}")
        rows = [
            row for row in await slurm.scheduler.find_records([run]) if not row.state.is_terminal
        ]
        # Newer releases may keep a record of the task itself.
        assert {row.array_task_id for row in rows} == left
    assert {row.job_id for row in rows} == {request.job_id}
    await slurm.cancel(number)


COUNTS = (
    "env | grep -E '^SLURM_(NTASKS|NPROCS|TASKS|CPUS_PER|JOB_CPUS|CPUS_ON|NNODES|JOB_NUM)' | sort\n"
    "srun --mpi=none hostname | wc -l\n"
)


async def test_jobs_have_the_tasks_of_sbatch(slurm: Bench) -> None:
    cluster = cluster_of(slurm)
    numbers = {}
    for name, resources, words in (
        ("nodes", {"nodes": 2, "cpu": 2}, ["-N2", "-c2"]),
        (
            "tasks",
            {"nodes": 2, "cpu": 4, "tasks_per_node": 2, "cpus_per_task": 2},
            ["-N2", "--ntasks-per-node=2", "-c2"],
        ),
    ):
        log = Path(f"/home/alice/{slurm.data_dir.name}-{name}.log")
        plain = sbatch(cluster, "alice", f"#!/bin/bash\n{COUNTS}", "--mem=64M", f"-o{log}", *words)
        numbers[log] = (plain, *await slurm.submit(COUNTS, resources=resources))
    for log, (plain, number, request) in numbers.items():
        assert (await slurm.wait_ended(number)).state is JobState.COMPLETED
        wait_ended(cluster, plain)
        assert slurm.log(request) == log.read_text()
        log.unlink()


async def test_shards_and_sessions(slurm: Bench) -> None:
    number, _ = await slurm.submit(
        "sleep 60", resources={"gres": {"shard": 2}}, session=True, max_requeues=3
    )
    row = await slurm.running(number)
    said = slurm_says(slurm, "scontrol", "--oneliner", "show", "job", number)
    assert "Requeue=0" in said
    at = slurm.stand.nodes.index(row.nodes[0])
    # 22.05 counts the GPUs that they are taken from.
    node = (await slurm.nodes_until(lambda nodes: any(gres.used for gres in nodes[at].gres)))[at]
    (shards,) = node.gres
    assert shards.name.partition(":")[0] == "shard"
    assert shards.total == 16


async def test_a_job_has_its_own_environment(slurm: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITNE_SECRET", "the platform's")
    number, request = await slurm.submit("env; echo umask=$(umask); echo here=$(pwd)")
    await slurm.wait_ended(number)
    env = dict(line.split("=", 1) for line in slurm.log(request).splitlines() if "=" in line)
    assert "AITNE_SECRET" not in env
    assert (env["USER"], env["LOGNAME"], env["HOME"]) == ("alice", "alice", "/home/alice")
    assert env["SHELL"] == "/bin/bash"
    assert "/usr/bin" in env["PATH"]
    assert env["umask"] == "0022"
    assert env["here"] == request.job_dir
    assert "SLURM_TIME_FORMAT" not in env


async def test_a_percent_sign_in_the_folder_is_no_pattern(slurm: Bench) -> None:
    if isinstance(slurm.scheduler, BrokerScheduler):
        pytest.skip("the broker lets no folder have such a name")
    folder = slurm.stand.jobs / "100%j" / "1"
    number, request = await slurm.submit(
        "echo $SLURM_ARRAY_TASK_ID", job_dir=str(folder), array="5"
    )
    await slurm.wait_ended(number)
    assert slurm.log(request, 5) == "5\n"


async def test_records_of_others_cannot_pass_for_ours(slurm: Bench) -> None:
    cluster = cluster_of(slurm)
    number, _ = await slurm.submit("sleep 60")
    mine = await slurm.running(number)
    forged = uuid4()
    record = [job_comment.make_comment(forged, 1), *["1"] * (len(squeue_parser.FIELDS) - 1)]
    lines = "x\n" + squeue_parser.SEPARATOR.join(record) + "\n"
    options = ("--hold", "--chdir=/tmp", "--output=/dev/null", f"--comment={lines}")
    said = run_as(
        cluster, "bob", "sbatch", "--parsable", *options, "--job-name=a|b", stdin="#!/bin/sh\n"
    )
    try:
        rows = await slurm.scheduler.poll()
        assert forged not in {row.job_id for row in rows}
        assert mine.job_id in {row.job_id for row in rows}
    finally:
        run_as(cluster, "bob", "scancel", said.strip())


async def test_an_unchanged_record_is_the_same_object(slurm: Bench) -> None:
    number, _ = await slurm.submit("sleep 60")
    await slurm.running(number)
    async with asyncio.timeout(60):
        while (await slurm.rows(number))[0] is not (await slurm.rows(number))[0]:
            await change(slurm.scheduler)  # the priority may have been counted anew in between


async def test_the_end_of_one_waiting_task_leaves_the_others(slurm: Bench) -> None:
    number, request = await slurm.submit("echo up; sleep 60", array="0-3%1")
    await slurm.log_says(request, "up", 0)
    await slurm.cancel(f"{number}_2")
    wanted = [JobState.RUNNING, JobState.QUEUED, JobState.CANCELLED, JobState.QUEUED]
    rows = await slurm.until(number, lambda rows: [row.state for row in rows] == wanted)
    assert [row.array_task_id for row in rows] == [0, 1, 2, 3]
    await slurm.cancel(number)
    rows = await slurm.until(number, lambda rows: all(row.state.is_terminal for row in rows))
    assert [row.array_task_id for row in rows] == [0, 1, 2, 3]
    assert [row.started_at is None for row in rows] == [False, True, True, True]


async def test_an_id_that_another_job_has_now_is_left_alone(slurm: Bench) -> None:
    old, _ = await slurm.submit("true")
    await slurm.wait_ended(old)
    number, request = await slurm.submit("echo up; sleep 60")
    await slurm.log_says(request, "up")
    run = slurm.run(old).model_copy(update={"scheduler_id": number})
    await slurm.scheduler.cancel(run)
    with pytest.raises(SchedulerRejected, match="does not run"):
        await slurm.scheduler.extend(run, 120)
    assert (await slurm.running(number)).time_limit_s == 60


async def test_a_requeue_is_counted(slurm: Bench) -> None:
    number, request = await slurm.submit("echo up; sleep 60", max_requeues=1)
    await slurm.log_says(request, "up")
    before = await slurm.running(number)
    slurm_says(slurm, "scontrol", "requeue", number)
    rows = await slurm.until(
        number, lambda rows: [(r.state, r.restart_count) for r in rows] == [(JobState.QUEUED, 1)]
    )
    assert before.restart_count == 0
    assert rows[0].started_at is None
    assert rows[0].pending_reason


async def test_accounting_knows_what_has_ended(slurm: Bench) -> None:
    scheduler = slurm.scheduler
    if not isinstance(scheduler, SlurmCliScheduler):
        pytest.skip("accounting is read by the commands alone")
    number, _ = await slurm.submit("exit 7", array="1-2")
    dead, _ = await slurm.submit("kill -KILL $$")
    lives, _ = await slurm.submit("sleep 60")
    await slurm.until(number, lambda rows: all(row.state.is_terminal for row in rows))
    await slurm.wait_ended(dead)
    await slurm.running(lives)
    site: Site = scheduler._site
    runs = [slurm.run(each) for each in (number, dead, lives)]
    rows: Sequence[SchedulerJob] = ()
    async with asyncio.timeout(slurm.stand.patience_s):
        while len(rows) < 3:  # slurmctld tells slurmdbd when it comes to it
            rows = await site.list_ended_records(runs)
            await change(scheduler)
    found = {row.scheduler_id: row for row in rows}
    assert set(found) == {f"{number}_1", f"{number}_2", dead}
    assert found[f"{number}_1"].exit_code == 7
    assert found[f"{number}_1"].array_task_id == 1
    assert (found[dead].state, found[dead].signal) == (JobState.FAILED, 9)
    assert {row.account for row in rows} == {"alice"}
    assert found[dead].reason is TerminationReason.FAILED


async def test_search_names_the_account_that_cancelled_a_job(slurm: Bench) -> None:
    by_root, _ = await slurm.submit("sleep 60")
    by_owner, _ = await slurm.submit("sleep 60")
    for number, account in ((by_root, cluster_of(slurm).operator), (by_owner, "alice")):
        await slurm.running(number)
        run_as(cluster_of(slurm), account, "scancel", number)
        await slurm.wait_ended(number)
        expected = f"Cancelled in Slurm by {account}."
        async with asyncio.timeout(slurm.stand.patience_s):
            while True:
                [row] = await slurm.scheduler.find_records([slurm.run(number)])
                if row.pending_reason == expected:
                    break
                await change(slurm.scheduler)  # slurmctld tells slurmdbd when it comes to it
        assert row.state is JobState.CANCELLED
