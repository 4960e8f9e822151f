"""Projects with a slurmdbd: limits are set and usage is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from aitne.adapters.accounting.broker import BrokerAccounting
from aitne.adapters.accounting.slurm import SlurmAccounting
from aitne.adapters.command.local import LocalCommand
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import InvalidInput, NotAllowed, SchedulerRejected, Unavailable
from aitne.core.models.limits import MIB, Limits, LimitUsage, Usage
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.ports.accounting import (
    Accounting,
    AddAccount,
    AddMember,
    Change,
    RemoveMember,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
)
from aitne.core.projects.slurm_account_changes import AccountingTarget, list_changes
from aitne.local_system.settings_loader import load_settings
from tests.support import realtime
from tests.support.broker import BrokerBench, broker_on
from tests.support.slurm import both_releases, run_as, sbatch, wait_ended

pytestmark = realtime.SLURM

PROJECT = "accounting-test"
PATIENCE_S = 60.0

T = TypeVar("T")


def adapter(cluster: DevCluster, folder: Path, *before: str) -> SlurmAccounting:
    slurm = SlurmSettings(conf=cluster.slurm_conf, command_prefix=list(cluster.command_prefix))
    settings = load_settings(folder, slurm=slurm)
    return SlurmAccounting(settings, LocalCommand([*cluster.command_prefix, *before]))


async def clear(accounting: Accounting) -> None:
    """Leave the account without members and limits."""
    found = await accounting.read_associations()
    await accounting.apply_changes(list_changes(AccountingTarget({PROJECT: Limits()}), found))


@pytest.fixture
async def accounting(slurm_cluster: DevCluster, tmp_path: Path) -> AsyncIterator[SlurmAccounting]:
    found = adapter(slurm_cluster, tmp_path)
    await clear(found)
    yield found
    await clear(found)


async def until(ask: Callable[[], Awaitable[T]], good: Callable[[T], bool], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not good(await ask()):
                await asyncio.sleep(0.3)
    except TimeoutError:
        pytest.fail(f"not so after {PATIENCE_S:.0f} s: {what}")


def wanted(limits: Limits, **members: Limits) -> AccountingTarget:
    return AccountingTarget(
        {PROJECT: limits}, {(PROJECT, user): own for user, own in members.items()}
    )


LIMITS = Limits(
    max_gpus=8,
    max_gpus_by_type={"h200": 6},
    max_cpus=20,
    max_memory_bytes=3 << 39,
    max_nodes=3,
    max_jobs=10,
    max_submitted=100,
    max_wall_s=36 * 3_600,
    gpu_hours=1_000,
    qos=("normal",),
)
OWN = Limits(max_gpus=4, max_memory_bytes=20_500 * MIB, max_jobs=5, max_submitted=9, max_wall_s=60)


@both_releases
async def test_accounting_has_no_differences_after_apply(accounting: SlurmAccounting) -> None:
    target = wanted(LIMITS, alice=OWN, bob=Limits())
    changes = list_changes(target, await accounting.read_associations())
    assert len(changes) > 15
    await accounting.apply_changes(changes)
    found = await accounting.read_associations()
    assert list_changes(target, found) == []
    [account] = [each for each in found.accounts if each.account == PROJECT]
    assert account.limits == LIMITS
    assert {"cpu", "gres/gpu"} <= found.tres


@both_releases
async def test_manual_changes_in_slurm_accounting_are_found_and_corrected(
    accounting: SlurmAccounting, slurm_cluster: DevCluster
) -> None:
    target = wanted(Limits(max_gpus=8), alice=Limits())
    await accounting.apply_changes(list_changes(target, await accounting.read_associations()))
    hand = (
        f"modify account where name={PROJECT} set GrpTRES=gres/gpu=64,cpu=1",
        f"add user bob account={PROJECT}",
        f"modify user where name=alice account={PROJECT} set MaxJobs=1",
    )
    for words in hand:
        run_as(slurm_cluster, "root", "sacctmgr", "-i", *words.split())
    drift = list_changes(target, await accounting.read_associations())
    assert drift == [
        SetLimit(account=PROJECT, limit="max_gpus", before=64, after=8),
        SetLimit(account=PROJECT, limit="max_cpus", before=1, after=None),
        SetLimit(account=PROJECT, user="alice", limit="max_jobs", before=1, after=None),
        RemoveMember(account=PROJECT, user="bob"),
    ]
    await accounting.apply_changes(drift)
    assert list_changes(target, await accounting.read_associations()) == []


@both_releases
async def test_gpus_in_use_and_gpu_hours(
    accounting: SlurmAccounting, slurm_cluster: DevCluster
) -> None:
    target = wanted(Limits(max_gpus=4), alice=Limits(), bob=Limits(max_jobs=3))
    await accounting.apply_changes(list_changes(target, await accounting.read_associations()))
    started = datetime.now(UTC).replace(microsecond=0)

    async def use() -> LimitUsage:
        return await accounting.read_limit_usage()

    # slurmctld hears of new associations from slurmdbd a moment later.
    await until(use, lambda look: look.find_association(PROJECT, "bob") is not None, "bob")
    words = ("-A", PROJECT, "--gpus=2", "-c1", "--mem=100M", "-t2", "-o", "/dev/null")
    script = "#!/bin/sh\nsleep 5\n"
    jobs = [sbatch(slurm_cluster, "alice", script, *words)]
    jobs.append(sbatch(slurm_cluster, "bob", script, *words))

    def both_run(look: LimitUsage) -> bool:
        account = look.find_association(PROJECT)
        return account is not None and account.tres["gres/gpu"].used == 4

    await until(use, both_run, "both jobs run")
    look = await accounting.read_limit_usage()
    mine, his, ours = (
        look.find_association(PROJECT, "alice"),
        look.find_association(PROJECT, "bob"),
        look.find_association(PROJECT),
    )
    assert mine is not None
    assert his is not None
    assert ours is not None
    assert (ours.tres["gres/gpu"].limit, ours.parent) == (4, "root")
    assert (mine.tres["gres/gpu"].used, his.tres["gres/gpu"].used) == (2, 2)
    assert (his.max_jobs.limit, his.max_jobs.used) == (3, 1)
    assert "limits" in look.enforced
    [normal] = [each for each in look.qos if each.name == "normal"]
    assert normal.used_by["alice"]["gres/gpu"] >= 2
    for job in jobs:
        wait_ended(slurm_cluster, job)

    async def rows() -> list[Usage]:
        end = datetime.now(UTC) + timedelta(seconds=1)
        found = await accounting.read_usage(started, end)
        return [each for each in found if each.account == PROJECT]

    def settled(found: list[Usage]) -> bool:
        return [each.user for each in found] == ["alice", "bob"]

    await until(rows, settled, "both jobs in the database")
    for row in await rows():
        assert row.jobs == 1
        assert row.gpu_s == 2 * row.cpu_s, "two GPUs and one CPU"
        assert 8 <= row.gpu_s <= 30
        assert sum(row.gpu_s_by_type.values()) == row.gpu_s
    nothing = await accounting.read_usage(
        started - timedelta(days=40), started - timedelta(days=39)
    )
    assert nothing == ()


async def test_a_month_is_cut_where_it_ends(
    accounting: SlurmAccounting, slurm_cluster: DevCluster
) -> None:
    await accounting.apply_changes(
        list_changes(wanted(Limits(), alice=Limits()), await accounting.read_associations())
    )

    async def known() -> bool:
        return (await accounting.read_limit_usage()).find_association(PROJECT, "alice") is not None

    await until(known, bool, "alice")
    words = ("-A", PROJECT, "--gpus=1", "--mem=100M", "-t2", "-o", "/dev/null")
    job = sbatch(slurm_cluster, "alice", "#!/bin/sh\nsleep 6\n", *words)
    wait_ended(slurm_cluster, job)

    def times() -> list[str]:
        said = run_as(
            slurm_cluster, "root", *("env", "TZ=UTC", "sacct"), "-nPXj", job, "-o", "Start,End"
        )
        return said.strip().split("|")

    async def ended() -> bool:
        return "Unknown" not in times()

    await until(ended, bool, "the end in the database")
    start, end = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in times())
    middle = start + timedelta(seconds=2)

    async def spent(first: datetime, last: datetime) -> int:
        found = await accounting.read_usage(first, last)
        return sum(each.gpu_s for each in found if each.account == PROJECT)

    whole = await spent(start, end)
    assert whole == (end - start).total_seconds() > 4
    assert await spent(start, middle) == 2
    assert await spent(middle, end) == whole - 2


@both_releases
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (SetGpuTypeLimit(account=PROJECT, type="nosuch", before=None, after=1), "nosuch"),
        (SetQos(account=PROJECT, before=(), after=("nosuch",)), "nosuch"),
    ],
)
async def test_unknown_gpu_type_or_qos_is_rejected_by_slurm(
    accounting: SlurmAccounting, change: Change, said: str
) -> None:
    with pytest.raises(SchedulerRejected, match=said):
        await accounting.apply_changes([change])


async def test_user_without_administrator_level_cannot_change_accounting(
    slurm_cluster: DevCluster, tmp_path: Path, accounting: SlurmAccounting
) -> None:
    drop = ("setpriv", "--reuid", "alice", "--regid", "alice", "--clear-groups")
    alices = adapter(slurm_cluster, tmp_path, *drop)
    with pytest.raises(NotAllowed, match="AdminLevel=Operator"):
        await alices.apply_changes([AddAccount(account="alices-own")])
    assert "alices-own" not in {
        each.account for each in (await accounting.read_associations()).accounts
    }


async def test_a_database_that_does_not_answer(slurm_cluster: DevCluster, tmp_path: Path) -> None:
    text = slurm_cluster.slurm_conf.read_text()
    port = f"AccountingStoragePort={slurm_cluster.ports.slurmdbd}"
    assert port in text
    conf = tmp_path / "slurm.conf"
    conf.write_text(text.replace(port, "AccountingStoragePort=1"))
    elsewhere = adapter(
        slurm_cluster.model_copy(update={"slurm_conf": conf, "command_prefix": ()}), tmp_path
    )
    with pytest.raises(Unavailable, match="slurmdbd"):
        await elsewhere.read_associations()


@pytest.fixture(scope="module")
def bench(slurm_cluster: DevCluster) -> Iterator[BrokerBench]:
    with broker_on(slurm_cluster) as bench:
        yield bench


async def test_through_the_broker(bench: BrokerBench, accounting: SlurmAccounting) -> None:
    """As Slurm's operator, who has no more rights than that."""
    broker = BrokerAccounting(bench.settings())
    try:
        target = wanted(LIMITS, alice=OWN, bob=Limits())
        await broker.apply_changes(list_changes(target, await broker.read_associations()))
        assert list_changes(target, await accounting.read_associations()) == []
        assert await broker.read_associations() == await accounting.read_associations()
        assert (await broker.read_limit_usage()).enforced == (
            await accounting.read_limit_usage()
        ).enforced
        now = datetime.now(UTC)

        async def usages() -> tuple[list[Usage], list[Usage]]:
            """Return the usage by both ways; slurmdbd may record a job's end between the two."""
            hour = now - timedelta(hours=1), now
            return list(await broker.read_usage(*hour)), list(await accounting.read_usage(*hour))

        await until(usages, lambda both: both[0] == both[1] != [], "both count the same")
        for refused in (
            AddMember(account="root", user="alice"),
            AddMember(account=PROJECT, user="root"),
            AddMember(account=PROJECT, user="daemon"),
            SetLimit(account="root", limit="max_jobs", before=None, after=0),
        ):
            with pytest.raises(NotAllowed):
                await broker.apply_changes([refused])
        hostile = AddMember.model_construct(
            kind="add_member", account=f"{PROJECT} AdminLevel=Admin", user="alice"
        )
        with pytest.raises(InvalidInput):
            await broker.apply_changes([hostile])
    finally:
        await broker.close()
    assert bench.audited(verb="accounting_apply", outcome="done")
