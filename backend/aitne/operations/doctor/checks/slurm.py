"""Checks of the scheduler: Slurm's settings, accounting, release and clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from aitne.adapters.schedulers._slurm.config import SlurmConfig, config_values
from aitne.adapters.schedulers._slurm.rest.client import RestClient
from aitne.core.errors import SchedulerUnavailable
from aitne.core.models.node import Holder
from aitne.host.account import own_account_name
from aitne.operations.doctor import web
from aitne.operations.doctor.findings import Finding, failed, ok, skipped, warning
from aitne.operations.doctor.host import CheckedHost
from aitne.operations.doctor.registry import Subject, check
from aitne.operations.setup.slurm_settings import words

TESTED = ((22, 5), (24, 11), (26, 5))
OLDEST = (22, 5)
MOST_SKEW_S = 5.0
_NOT_SLURM = "The scheduler is not Slurm."
_AS_OF = re.compile(r"Configuration data as of (\S+)")
_RELEASE = re.compile(r"(\d+)\.(\d+)")


@check("scheduler", Subject.SCHEDULER, "The scheduler answers the controller.", needs_platform=True)
async def scheduler(host: CheckedHost) -> Finding:
    """Check the controller's last query of the scheduler, as the health page does."""
    return await host.health("scheduler")


@check("nodes", Subject.SCHEDULER, "All nodes accept jobs.", needs_platform=True)
async def nodes(host: CheckedHost) -> Finding:
    """Check the states of the nodes, as the health page does."""
    return await host.health("nodes")


@check("topology", Subject.SCHEDULER, "The topology agrees with the scheduler.")
async def topology(host: CheckedHost) -> Finding:
    """Check the sources of the topology against each other and the nodes, as the health page does."""
    return await host.health("topology")


@check("slurm-settings", Subject.SCHEDULER, "Slurm's settings fit the platform.")
async def slurm_settings(host: CheckedHost) -> Finding:
    """Check the settings of slurm.conf and cgroup.conf on which the platform depends."""
    if not host.slurm:
        return skipped(_NOT_SLURM)
    problems = list(settings_problems(await host.slurm_config()))
    if problems:
        return warning(
            " ".join(problems),
            "Change slurm.conf or cgroup.conf and run `scontrol reconfigure` "
            "(docs/handbook/install.md explains each setting).",
        )
    return ok("Slurm's settings fit the platform.")


def settings_problems(output: str) -> list[str]:
    """Return what is missing in the output of ``scontrol show config``, as sentences."""
    config, values = SlurmConfig.parse(output), dict(config_values(output))
    problems = [
        note for note in config.notes(sees_all=True, account="") if "accounting" not in note
    ]
    if config.memory_held_by not in (Holder.CGROUP, Holder.SAMPLING):
        problems.append(
            "Nothing ends a job that uses more memory than it requested: set TaskPlugin=task/cgroup "
            "and ConstrainRAMSpace=yes."
        )
    if config.cpus_held_by not in (Holder.CGROUP, Holder.BINDING):
        problems.append(
            "Nothing keeps a job on its own CPUs: set TaskPlugin=task/cgroup,task/affinity and "
            "ConstrainCores=yes."
        )
    if values.get("ProctrackType") != "proctrack/cgroup":
        problems.append(
            "Processes that leave their job's process tree survive it: set "
            "ProctrackType=proctrack/cgroup."
        )
    if "contain" not in values.get("PrologFlags", "").lower():
        problems.append(
            "A job's control group exists only once its first step starts: set PrologFlags=Contain."
        )
    if "job_comment" not in config.stores and config.accounting:
        problems.append(
            "Accounting does not keep the comments by which the platform knows its jobs: set "
            "AccountingStoreFlags=job_comment."
        )
    if "cons_tres" not in values.get("SelectType", ""):
        problems.append(
            "Slurm cannot allocate single GPUs of a node: set SelectType=select/cons_tres."
        )
    if "gpu" in words(values.get("GresTypes", "")):
        problems += _gpu_problems(values, accounting=config.accounting)
    return problems


def _gpu_problems(values: Mapping[str, str], *, accounting: bool) -> Iterator[str]:
    if "task/cgroup" not in words(values.get("TaskPlugin", "")) or (
        values.get("ConstrainDevices", "").lower() not in ("yes", "true", "1")
    ):
        yield (
            "Nothing keeps a job from the GPUs of other jobs: set TaskPlugin=task/cgroup and "
            "ConstrainDevices=yes."
        )
    if accounting and "gres/gpu" not in words(values.get("AccountingStorageTRES", "")):
        yield "Accounting does not count GPUs: set AccountingStorageTRES=gres/gpu."


@check(
    "slurm-accounting", Subject.SCHEDULER, "slurmdbd answers, and records jobs and their accounts."
)
async def slurm_accounting(host: CheckedHost) -> Finding:
    """Check that accounting is configured, answers, and knows the cluster."""
    if not host.slurm:
        return skipped(_NOT_SLURM)
    config = SlurmConfig.parse(await host.slurm_config())
    if not config.accounting:
        return warning(
            "Slurm has no accounting (AccountingStorageType), so projects are not limited by Slurm and "
            "ended jobs are soon forgotten.",
            "Set up slurmdbd and AccountingStorageType=accounting_storage/slurmdbd.",
        )
    try:
        said = await host.site().ask("sacctmgr", "-nP", "show", "cluster", "format=cluster")
    except SchedulerUnavailable as error:
        return failed(
            f"slurmdbd does not answer: {error.message}",
            "Start slurmdbd and its database. Jobs run meanwhile; usage follows later.",
        )
    if config.cluster not in said.split():
        return failed(
            f"Accounting does not know the cluster {config.cluster}.",
            f"Run `sacctmgr -i add cluster {config.cluster}`, and restart slurmctld.",
        )
    return ok(f"slurmdbd answers, and records the jobs of the cluster {config.cluster}.")


@check(
    "slurm-operator",
    Subject.SCHEDULER,
    "The platform's account sees the jobs of all users in Slurm.",
)
async def slurm_operator(host: CheckedHost) -> Finding:
    """Check PrivateData and the AdminLevel of the account that polls."""
    if not host.slurm:
        return skipped(_NOT_SLURM)
    config = SlurmConfig.parse(await host.slurm_config())
    account = host.settings.slurm.operator or own_account_name()
    if "jobs" not in config.private or account in ("root", config.slurm_user):
        return ok(f"{account} sees the jobs of all users.")
    said = await host.site().ask(
        "sacctmgr", "-nP", "show", "user", f"name={account}", "format=adminlevel"
    )
    if said.strip().lower() in ("operator", "administrator"):
        return ok(f"{account} sees the jobs of all users: it is {said.strip()} in Slurm.")
    return failed(
        f"Slurm hides jobs of others (PrivateData=jobs), and {account} is not an operator there.",
        f"Run `sacctmgr -i modify user {account} set adminlevel=operator`.",
    )


@check("slurm-release", Subject.SCHEDULER, "The release of Slurm is a tested one.")
async def slurm_release(host: CheckedHost) -> Finding:
    """Compare Slurm's release with those that the platform was tested with."""
    if not host.slurm:
        return skipped(_NOT_SLURM)
    name = SlurmConfig.parse(await host.slurm_config()).release
    match = _RELEASE.match(name)
    release = (0, 0) if match is None else (int(match[1]), int(match[2]))
    tested = ", ".join(f"{major}.{minor:02}" for major, minor in TESTED)
    if release < OLDEST:
        return failed(
            f"Slurm {name} is older than every release that was tested ({tested}).",
            "Update Slurm.",
        )
    if release not in TESTED:
        return warning(
            f"Slurm {name} was not tested; these were: {tested}.",
            "Run `aitne admin accept`, and report what fails.",
        )
    return ok(f"Slurm {name} was tested.")


@check("slurm-clock", Subject.SCHEDULER, "The clock of slurmctld agrees with that of this machine.")
async def slurm_clock(host: CheckedHost) -> Finding:
    """Compare the time at which slurmctld sent its configuration with this machine's."""
    if not host.slurm:
        return skipped(_NOT_SLURM)
    before = datetime.now(UTC).timestamp()
    output = await host.site().ask("scontrol", "show", "config")
    skew = clock_skew(output, before, datetime.now(UTC).timestamp())
    if skew is None:
        return skipped("slurmctld does not tell its time.")
    if abs(skew) > MOST_SKEW_S:
        return failed(
            f"The clock of slurmctld's machine is {abs(skew):.0f} s "
            f"{'ahead of' if skew > 0 else 'behind'} the clock of this machine.",
            "Run chrony on both, with the same servers: MUNGE refuses messages at 300 s.",
        )
    return ok("The clocks of slurmctld's machine and of this one agree.")


def clock_skew(output: str, before_s: float, after_s: float) -> float | None:
    """Return by how many seconds slurmctld's clock is ahead, 0 within the time of the query
    (``before_s`` to ``after_s``, Unix time); None if its answer has no time.
    """
    match = _AS_OF.search(output)
    if match is None:
        return None
    try:
        # A number with SLURM_TIME_FORMAT=%s, which the platform sets; otherwise local time.
        text = match[1]
        there = float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
    if there < int(before_s):
        return there - before_s
    return max(0.0, there - after_s)


@check("slurmrestd", Subject.SCHEDULER, "slurmrestd answers.")
async def slurmrestd(host: CheckedHost) -> Finding:
    """Check that slurmrestd listens; the broker has the key for its requests."""
    url = host.settings.slurm.rest_url
    if not host.slurm or url is None:
        return skipped("The settings name no slurmrestd, so Slurm's commands are used.")
    client = RestClient(url)
    try:
        response = await client.ask("GET", "/openapi/v3", {}, timeout_s=web.WITHIN_S)
    except SchedulerUnavailable as error:
        return warning(
            f"slurmrestd does not answer: {error.message}",
            "Start slurmrestd, or correct slurm.rest_url. The commands are used meanwhile.",
        )
    finally:
        await client.close()
    return ok(f"slurmrestd answers at {url} (HTTP {response.status}).")
