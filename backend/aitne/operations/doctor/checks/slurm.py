"""Checks of the scheduler: Slurm's settings, accounting, release and clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig
from aitne.core.errors import SchedulerUnavailable
from aitne.local_system.own_account import own_account_name
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_warning_finding,
)
from aitne.operations.requirements.slurm_conf_settings import SlurmReport, list_missing_settings
from aitne.operations.requirements.slurm_requirements import (
    check_operator,
    check_release,
    check_slurmrestd,
)

MOST_SKEW_S = 5.0
_NOT_SLURM = "The scheduler is not Slurm."
_AS_OF = re.compile(r"Configuration data as of (\S+)")


@check("scheduler", Subject.SCHEDULER, "The scheduler answers the controller.", needs_platform=True)
async def check_scheduler_answer(host: CheckedHost) -> Finding:
    """Check the controller's last query of the scheduler, as the health page does."""
    return await host.check_health("scheduler")


@check("nodes", Subject.SCHEDULER, "All nodes accept jobs.", needs_platform=True)
async def check_node_states(host: CheckedHost) -> Finding:
    """Check the states of the nodes, as the health page does."""
    return await host.check_health("nodes")


@check("topology", Subject.SCHEDULER, "The topology agrees with the scheduler.")
async def check_topology_sources(host: CheckedHost) -> Finding:
    """Check the sources of the topology against each other and the nodes, as the health page does."""
    return await host.check_health("topology")


@check("slurm-settings", Subject.SCHEDULER, "Slurm's settings fit the platform.")
async def slurm_settings(host: CheckedHost) -> Finding:
    """Check the settings of slurm.conf and cgroup.conf on which the platform depends."""
    if not host.has_slurm:
        return make_skipped_finding(_NOT_SLURM)
    report = SlurmReport.parse(await host.slurm_config())
    # The check `slurm-accounting` is about accounting itself.
    lacking = [
        each for each in list_missing_settings(report) if each.name != "AccountingStorageType"
    ]
    if lacking:
        return make_warning_finding(
            " ".join(each.message(report) for each in lacking),
            f"Set {', '.join(each.line for each in lacking)} in slurm.conf or cgroup.conf and run `scontrol "
            "reconfigure` (docs/handbook/install.md explains each setting).",
        )
    return make_ok_finding("Slurm's settings fit the platform.")


@check(
    "slurm-accounting", Subject.SCHEDULER, "slurmdbd answers, and records jobs and their accounts."
)
async def slurm_accounting(host: CheckedHost) -> Finding:
    """Check that accounting is configured, answers, and knows the cluster."""
    if not host.has_slurm:
        return make_skipped_finding(_NOT_SLURM)
    config = SlurmConfig.parse(await host.slurm_config())
    if not config.accounting:
        return make_warning_finding(
            "Slurm has no accounting (AccountingStorageType), so projects are not limited by Slurm and "
            "ended jobs are soon forgotten.",
            "Set up slurmdbd and AccountingStorageType=accounting_storage/slurmdbd.",
        )
    try:
        said = await host.make_slurm_site().run_query(
            "sacctmgr", "-nP", "show", "cluster", "format=cluster"
        )
    except SchedulerUnavailable as error:
        return make_failed_finding(
            f"slurmdbd does not answer: {error.message}",
            "Start slurmdbd and its database. Jobs run meanwhile; usage follows later.",
        )
    if config.cluster not in said.split():
        return make_failed_finding(
            f"Accounting does not know the cluster {config.cluster}.",
            f"Run `sacctmgr -i add cluster {config.cluster}`, and restart slurmctld.",
        )
    return make_ok_finding(
        f"slurmdbd answers, and records the jobs of the cluster {config.cluster}."
    )


@check(
    "slurm-operator",
    Subject.SCHEDULER,
    "The platform's account sees the jobs of all users in Slurm.",
)
async def slurm_operator(host: CheckedHost) -> Finding:
    """Check PrivateData and the AdminLevel of the account that polls."""
    if not host.has_slurm:
        return make_skipped_finding(_NOT_SLURM)
    config = SlurmConfig.parse(await host.slurm_config())
    account = host.settings.slurm.operator or own_account_name()
    level = None
    if "jobs" in config.private and config.accounting:
        said = await host.make_slurm_site().run_query(
            "sacctmgr", "-nP", "show", "user", f"name={account}", "format=adminlevel"
        )
        level = said.strip()
    return check_operator(account, config, level)


@check("slurm-release", Subject.SCHEDULER, "The release of Slurm is a tested one.")
async def slurm_release(host: CheckedHost) -> Finding:
    """Compare Slurm's release with those that the platform was tested with."""
    if not host.has_slurm:
        return make_skipped_finding(_NOT_SLURM)
    return check_release(SlurmConfig.parse(await host.slurm_config()))


@check("slurm-clock", Subject.SCHEDULER, "The clock of slurmctld agrees with that of this machine.")
async def slurm_clock(host: CheckedHost) -> Finding:
    """Compare the time at which slurmctld sent its configuration with this machine's."""
    if not host.has_slurm:
        return make_skipped_finding(_NOT_SLURM)
    before = datetime.now(UTC).timestamp()
    output = await host.make_slurm_site().run_query("scontrol", "show", "config")
    skew = compute_clock_skew(output, before, datetime.now(UTC).timestamp())
    if skew is None:
        return make_skipped_finding("slurmctld does not tell its time.")
    if abs(skew) > MOST_SKEW_S:
        return make_failed_finding(
            f"The clock of slurmctld's machine is {abs(skew):.0f} s "
            f"{'ahead of' if skew > 0 else 'behind'} the clock of this machine.",
            "Run chrony on both, with the same servers: MUNGE refuses messages at 300 s.",
        )
    return make_ok_finding("The clocks of slurmctld's machine and of this one agree.")


def compute_clock_skew(output: str, before_s: float, after_s: float) -> float | None:
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
async def check_slurmrestd_answer(host: CheckedHost) -> Finding:
    """Check that slurmrestd listens; the broker has the key for its requests."""
    url = host.settings.slurm.rest_url
    if not host.has_slurm or url is None:
        return make_skipped_finding(
            "The settings name no slurmrestd, so Slurm's commands are used."
        )
    return await check_slurmrestd(url)
