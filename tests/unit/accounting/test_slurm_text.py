"""Tests of the parsers of Slurm's accounting output, and of the arguments of sacctmgr."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.accounting._accounting_output_parser import (
    ASSOCIATION_FIELDS,
    USAGE_FIELDS,
    make_sacctmgr_arguments,
    parse_associations,
    parse_counted_resources,
    parse_energy,
    parse_tres,
    parse_usage,
    parse_users,
    parse_wall,
)
from aitne.adapters.accounting._assoc_mgr import parse_association_use, parse_qos_use
from aitne.adapters.accounting.slurm import SlurmAccounting
from aitne.core.models.limits import MIB, Gauge, Limits, Usage
from aitne.core.ports.accounting import (
    CHANGE,
    AddAccount,
    AddMember,
    Change,
    JobEnergy,
    RemoveMember,
    SetDefault,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
)
from aitne.core.ports.command import Completed
from aitne.core.settings import Settings

# Slurm 22.05.8, `sacctmgr -n -P show assoc WOPLimits`.
ASSOCIATIONS = """\
root|||||||||||normal
root|root||||||||||
ml|||root|cpu=20,gres/gpu:h200=6,gres/gpu=8,mem=20500M,node=3|gres/gpu=60000|10||||1-00:00:00|
ml|alice|||gres/gpu=4||||5|9|01:30:00|long,normal
ml|alice|debug||gres/gpu=1|||||||
"""
LOOK = """\
Current Association Manager state

Association Records

ClusterName=dev Account=root UserName= Partition= Priority=0 ID=1
    ParentAccount= Lft=1 DefAssoc=No
    GrpJobs=N(3) GrpJobsAccrue=N(5)
    GrpSubmitJobs=N(8) GrpWall=N(0.00)
    GrpTRES=cpu=N(5),mem=N(1100),energy=N(0),node=N(2),gres/gpu=N(6),gres/gpu:h200=N(6)
    GrpTRESMins=cpu=N(0),gres/gpu=N(0)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
    MaxTRESPJ=
ClusterName=dev Account=ml UserName= Partition= Priority=0 ID=3
    ParentAccount=root(1) Lft=2 DefAssoc=No
    GrpJobs=10(3) GrpJobsAccrue=N(5)
    GrpSubmitJobs=N(8) GrpWall=N(0.00)
    GrpTRES=cpu=20(5),mem=20480(1100),energy=N(0),node=3(2),gres/gpu=8(6),gres/gpu:h200=6(6)
    GrpTRESMins=cpu=N(7),gres/gpu=60000(12)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=1440
    MaxTRESPJ=
ClusterName=dev Account=ml UserName=alice(1001) Partition= Priority=0 ID=4
    ParentAccount= Lft=5 DefAssoc=Yes
    GrpJobs=3(2) GrpJobsAccrue=N(5)
    GrpSubmitJobs=N(7) GrpWall=N(0.00)
    GrpTRES=cpu=N(3),mem=N(600),gres/gpu=4(4),gres/gpu:h200=N(4)
    MaxJobs=5(2) MaxJobsAccrue= MaxSubmitJobs=9(7) MaxWallPJ=1440
    MaxTRESPJ=gres/gpu=2,mem=2048

QOS Records

QOS=long(2)
    UsageRaw=359.979376
    GrpTRES=cpu=N(2),gres/gpu=4(3)
    MaxWallPJ=2880
    MaxTRESPJ=cpu=4
    Account Limits
      ml
        MaxTRESPA=cpu=N(2),gres/gpu=N(3)
    User Limits
      1001
        MaxJobsPU=N(2) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(2)
        MaxTRESPU=cpu=N(2),gres/gpu=2(3)
      bob(1002)
        MaxTRESPU=cpu=N(0),gres/gpu=2(0)
QOS=normal(1)
    GrpTRES=cpu=N(0)
    User Limits
        No Users
"""


def test_associations() -> None:
    accounts, members = parse_associations(ASSOCIATIONS)
    assert [(each.account, each.parent) for each in accounts] == [("root", None), ("ml", "root")]
    assert accounts[1].limits == Limits(
        max_gpus=8,
        max_gpus_by_type={"h200": 6},
        max_cpus=20,
        max_memory_bytes=20_500 * MIB,
        max_nodes=3,
        max_jobs=10,
        max_wall_s=86_400,
        gpu_hours=1_000,
    )
    assert [(each.account, each.user) for each in members] == [("root", "root"), ("ml", "alice")]
    assert members[1].limits == Limits(
        max_gpus=4, max_jobs=5, max_submitted=9, max_wall_s=5_400, qos=("long", "normal")
    )


def test_users_and_what_is_counted() -> None:
    alice, root = parse_users("alice|ml|None\nroot|root|Administrator\n")
    assert (alice.default_account, alice.is_privileged, root.is_privileged) == ("ml", False, True)
    counted = parse_counted_resources("cpu|\nfs|disk\ngres|gpu\ngres|gpu:h200\n")
    assert counted == {"cpu", "fs/disk", "gres/gpu", "gres/gpu:h200"}


def test_usage_counts_each_gpu_and_each_job_once() -> None:
    text = """\
1|ml|alice|100|2026-03-02T10:00:00|billing=2,cpu=2,energy=7000,gres/gpu:h200=2,gres/gpu=2,node=1
2|ml|alice|10|2026-03-02T11:00:00|cpu=1,energy=200,gres/gpu:a100=4,node=1
2|ml|alice|30|2026-04-01T00:00:00|cpu=1,energy=9000,gres/gpu:a100=4,node=1
3|ml|bob|60|Unknown|cpu=8,node=1
4|ml|bob|0|2026-03-02T10:00:00|
5|ml|bob|60|2026-03-02T10:00:00|cpu=1,energy=18446744073709551614,node=1
6|ml|bob|60|2026-03-02T10:00:00|cpu=1,energy=16777216T,gres/gpu=4294967294,node=1
7|ml|bob|60|2026-03-02T10:00:00|cpu=1,energy=nan,node=1
8|ml|eve|60|2026-03-02T10:00:00|cpu=1,energy=18446744073709551615,node=1
9|ml|eve|60|2026-03-02T10:00:00|cpu=1,energy=50,node=1
10|ml|eve|18446744073709551614|2026-03-02T10:00:00|cpu=1,node=1
"""
    assert parse_usage(text, "2026-04-01T00:00:00") == (
        Usage(
            account="ml",
            user="alice",
            cpu_s=240,
            gpu_s=360,
            gpu_s_by_type={"a100": 160, "h200": 200},
            jobs=2,
            energy_j=7_200,  # the second run of job 2 ended in April
        ),
        Usage(account="ml", user="bob", cpu_s=660, gpu_s=0, jobs=4),
        Usage(account="ml", user="eve", cpu_s=120, gpu_s=0, jobs=2, energy_j=50),
    )


def test_energy_is_read_where_it_was_measured() -> None:
    # After Slurm 24.11, `sacct -X -n -P -o JobID,End,ConsumedEnergyRaw`: 0, nothing or NO_VAL64 where
    # no plugin measured.
    text = """\
7|2026-03-02T10:00:00|123456
8_3|2026-03-02T10:30:00|77
9|2026-03-02T10:00:00|0
10|2026-03-02T10:00:00|
11|2026-03-02T10:00:00|18446744073709551614
14|2026-03-02T10:00:00|18446744073709551615
15|2026-03-02T10:00:00|4294967294
16|2026-03-02T10:00:00|nan
12|Unknown|5
13_[4-9]|None|0
"""
    assert parse_energy(text) == (
        JobEnergy(scheduler_id="7", ended_at=datetime(2026, 3, 2, 10, tzinfo=UTC), energy_j=123456),
        JobEnergy(
            scheduler_id="8_3", ended_at=datetime(2026, 3, 2, 10, 30, tzinfo=UTC), energy_j=77
        ),
    )


@pytest.mark.parametrize(
    ("plugin", "measured"),
    [("(null)", False), ("acct_gather_energy/none", False), ("acct_gather_energy/rapl", True)],
)
async def test_accounting_is_asked_for_energy_only_if_a_plugin_measures_it(
    plugin: str, measured: bool
) -> None:
    asked: list[str] = []

    class Slurm:
        async def run(self, argv: Sequence[str], **_: object) -> Completed:
            asked.append(argv[0])
            config = "ClusterName = c\nAccountingStorageType = accounting_storage/slurmdbd\n"
            answers = {
                "scontrol": f"{config}AcctGatherEnergyType = {plugin}\n",
                "sacct": "7|2026-03-02T10:00:00|123456\n",
            }
            return Completed(0, answers[argv[0]].encode(), b"")

    accounting = SlurmAccounting(Settings(), Slurm())  # type: ignore[arg-type]
    march = datetime(2026, 3, 1, tzinfo=UTC)
    found = await accounting.read_energy(march, march + timedelta(days=2))
    assert [each.energy_j for each in found] == ([123456] if measured else [])
    assert asked == ["scontrol", "sacct"][: 1 + measured]


def test_association_use_is_parsed() -> None:
    root, ml, alice = parse_association_use(LOOK)
    assert (ml.account, ml.user, ml.parent) == ("ml", None, "root")
    assert ml.tres["gres/gpu"] == Gauge(limit=8, used=6)
    assert ml.tres["mem"] == Gauge(limit=20_480, used=1_100)
    assert ml.tres_minutes == {"gres/gpu": Gauge(limit=60_000, used=12)}
    assert (ml.grp_jobs, ml.max_wall_s) == (Gauge(limit=10, used=3), 86_400)
    assert "energy" not in root.tres
    assert (alice.account, alice.user, alice.parent) == ("ml", "alice", None)
    assert alice.per_job == {"gres/gpu": 2, "mem": 2_048}
    assert (alice.max_jobs, alice.max_submitted) == (Gauge(limit=5, used=2), Gauge(limit=9, used=7))


def test_qos_use_is_parsed() -> None:
    long, normal = parse_qos_use(LOOK, "normal||\nlong|gres/gpu=2|2-00:00:00\n")
    assert long.tres["gres/gpu"] == Gauge(limit=4, used=3)
    assert (long.per_job, long.per_user) == ({"cpu": 4}, {"gres/gpu": 2})
    assert long.max_wall_s == 2 * 86_400
    assert long.used_by == {"alice": {"cpu": 2, "gres/gpu": 3}}
    assert (normal.name, normal.used_by, normal.per_user) == ("normal", {}, {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("01:30:00", 5_400), ("1-00:00:00", 86_400), ("69-10:40:00", 6_000_000), ("", None)],
)
def test_wall(text: str, seconds: int | None) -> None:
    assert parse_wall(text) == seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mem=500M", {"mem": 500 * MIB}),
        ("mem=500", {"mem": 500 * MIB}),
        ("mem=1.50T", {"mem": 3 << 39}),
        ("gres/gpu=0,cpu=1048576", {"gres/gpu": 0, "cpu": 1 << 20}),
        ("gres/gpu:1g.10gb=2", {"gres/gpu:1g.10gb": 2}),
        ("", {}),
    ],
)
def test_tres(text: str, found: dict[str, int]) -> None:
    assert parse_tres(text) == found


lines = st.text(
    st.sampled_from("abz=|,:/\n 0123456789()-.NMGTN") | st.characters(codec="utf-8"), max_size=200
)


@given(lines)
def test_no_text_breaks_a_parser(text: str) -> None:
    parse_associations(text)
    parse_users(text)
    parse_usage(text, "")
    parse_energy(text)
    parse_association_use(text)
    parse_qos_use(text, text)


@given(st.lists(lines.map(lambda text: text.replace("|", "").replace("\n", "")), max_size=12))
def test_no_cell_breaks_a_parser(cells: list[str]) -> None:
    for fields in (ASSOCIATION_FIELDS, USAGE_FIELDS):
        padded = [*cells, *[""] * len(fields)][: len(fields)]
        parse_associations("|".join(["ml", *padded[1:]]))
        parse_usage("|".join(["1", "ml", "alice", *padded[3:]]), "")
    parse_energy("|".join([*cells, "2026-03-02T10:00:00", "9"]))


# Slurm's words for "no value" and "infinite" begin at 2 ** 32 - 2.
tres_counts = st.integers(0, 1 << 31)
tres_names = st.sampled_from(["cpu", "node", "gres/gpu", "gres/gpu:a100", "gres/shard"])


@given(st.dictionaries(tres_names, tres_counts), st.integers(0, (1 << 40) // MIB))
def test_tres_are_read_as_they_are_written(counts: dict[str, int], mebibytes: int) -> None:
    text = ",".join([*(f"{name}={count}" for name, count in counts.items()), f"mem={mebibytes}M"])
    assert parse_tres(text) == {**counts, "mem": mebibytes * MIB}


RUN = st.tuples(
    st.integers(1, 5),
    st.sampled_from(["ml", "vision"]),
    st.sampled_from(["alice", "bob"]),
    st.integers(0, 1_000),
    st.integers(1, 64),
    st.integers(0, 8),
)


@given(st.lists(RUN, max_size=30))
def test_usage_is_the_sum_of_its_runs(runs: list[tuple[int, str, str, int, int, int]]) -> None:
    text = "\n".join(
        f"{job}|{account}|{user}|{seconds}|Unknown|cpu={cpu},gres/gpu={gpu},node=1"
        for job, account, user, seconds, cpu, gpu in runs
    )
    found = parse_usage(text, "2026-04-01T00:00:00")
    assert sum(each.gpu_s for each in found) == sum(run[3] * run[5] for run in runs)
    assert sum(each.cpu_s for each in found) == sum(run[3] * run[4] for run in runs)
    assert sum(each.jobs for each in found) == len({run[:3] for run in runs if run[3]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (AddAccount(account="ml"), "add account Name=ml Cluster=dev Parent=root"),
        (AddMember(account="ml", user="bob"), "add user Name=bob Cluster=dev Account=ml"),
        (
            RemoveMember(account="ml", user="bob"),
            "delete user where Name=bob Account=ml Cluster=dev",
        ),
        (
            SetDefault(account="ml", user="bob", before=None),
            "modify user where Name=bob Cluster=dev set DefaultAccount=ml",
        ),
        (
            SetLimit(account="ml", limit="max_gpus", before=None, after=8),
            "modify account where Name=ml Cluster=dev set GrpTRES=gres/gpu=8",
        ),
        (
            SetLimit(account="ml", limit="max_memory_bytes", before=None, after=3 * MIB),
            "modify account where Name=ml Cluster=dev set GrpTRES=mem=3M",
        ),
        (
            SetLimit(account="ml", user="bob", limit="max_jobs", before=3, after=None),
            "modify user where Name=bob Account=ml Cluster=dev set MaxJobs=-1",
        ),
        (
            SetLimit(account="ml", limit="gpu_hours", before=3, after=10),
            "modify account where Name=ml Cluster=dev set GrpTRESMins=gres/gpu=600",
        ),
        (
            SetLimit(account="ml", limit="max_wall_s", before=3, after=7_200),
            "modify account where Name=ml Cluster=dev set MaxWall=120",
        ),
        (
            SetGpuTypeLimit(account="ml", type="1g.10gb", before=3, after=None),
            "modify account where Name=ml Cluster=dev set GrpTRES=gres/gpu:1g.10gb=-1",
        ),
        (
            SetQos(account="ml", before=("a",), after=()),
            "modify account where Name=ml Cluster=dev set QOS=",
        ),
    ],
)
def test_sacctmgr_arguments_match_change(change: Change, words: str) -> None:
    assert make_sacctmgr_arguments(change, "dev") == words.split(" ")


@given(st.text(max_size=40))
def test_no_name_is_more_than_a_name(name: str) -> None:
    """The names in a change contain no character with a meaning to sacctmgr."""
    for facts in (
        {"kind": "add_account", "account": name},
        {"kind": "add_member", "account": "ml", "user": name},
        {"kind": "set_qos", "account": "ml", "before": [], "after": [name]},
        {"kind": "set_gpu_type_limit", "account": "ml", "type": name, "before": 1, "after": 1},
    ):
        try:
            change = CHANGE.validate_python(facts)
        except ValueError:
            continue
        assert not set(name) & set(" \n\t=,;'\"|*%"), name
        assert not name.startswith(("-", "."))
        assert all("\n" not in word for word in make_sacctmgr_arguments(change, "dev"))
