"""Configuration of a site's Slurm, read from ``scontrol show config``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aitne.adapters.schedulers._slurm.scontrol_parser import default_amounts
from aitne.adapters.schedulers._slurm.times import parse_time
from aitne.core.models.cluster import Holder

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_\[\]]*)\s*= (.*)")


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """Values of slurm.conf and cgroup.conf that affect the platform."""

    cluster: str = "slurm"
    release: str = "unknown"
    accounting: bool = False
    """True if slurmdbd records accounts and ended jobs."""
    enforces: frozenset[str] = frozenset()
    """Words in AccountingStorageEnforce."""
    stores: frozenset[str] = frozenset()
    """Words in AccountingStoreFlags."""
    private: frozenset[str] = frozenset()
    """Words in PrivateData."""
    message_timeout_s: float = 10.0
    min_job_age_s: float = 300.0
    job_requeue: bool = True
    max_array_size: int | None = None
    max_jobs: int | None = None
    """Maximum number of jobs that slurmctld holds at a time (MaxJobCount)."""
    default_amounts: Mapping[str, int] = field(default_factory=dict)
    """Default amounts of memory and CPUs, by the name of their field in ``Partition``."""
    max_switch_wait_s: int = 300
    """Longest time for which a job waits for the number of switches that it requests."""
    slurm_user: str = "root"
    memory_held_by: Holder = Holder.NOBODY
    cpus_held_by: Holder = Holder.NOBODY
    started_at: datetime | None = None
    """Start of slurmctld (BOOT_TIME), at which it has read its configuration."""

    @classmethod
    def parse(cls, output: str) -> SlurmConfig:
        """Parse the output of ``scontrol show config``; Slurm's defaults are used for missing
        values.
        """
        values = dict(config_values(output))
        return cls(
            cluster=values.get("ClusterName", "slurm"),
            release=values.get("SLURM_VERSION", "unknown"),
            accounting="slurmdbd" in values.get("AccountingStorageType", ""),
            enforces=_parse_words(values, "AccountingStorageEnforce"),
            stores=_parse_words(values, "AccountingStoreFlags"),
            private=_parse_words(values, "PrivateData"),
            message_timeout_s=_parse_seconds(values, "MessageTimeout", 10.0),
            min_job_age_s=_parse_seconds(values, "MinJobAge", 300.0),
            job_requeue=values.get("JobRequeue", "1") != "0",
            max_array_size=_parse_count(values, "MaxArraySize"),
            max_jobs=_parse_count(values, "MaxJobCount"),
            default_amounts=default_amounts(values),
            max_switch_wait_s=_switch_wait(values),
            slurm_user=values.get("SlurmUser", "root").partition("(")[0],
            memory_held_by=_find_memory_enforcer(values),
            cpus_held_by=_find_cpu_enforcer(values),
            started_at=parse_time(values.get("BOOT_TIME", "")),
        )

    def list_notes(self, *, sees_all: bool, account: str) -> Iterator[str]:
        """Yield sentences for the administrator about this configuration, for example that
        ``account``, which reads the queue, does not see other users' jobs (``sees_all`` is False).
        """
        if "jobs" in self.private and not sees_all:
            yield (
                f"Slurm hides jobs of others (PrivateData=jobs), and {account} is neither operator "
                "nor administrator there: the platform sees no job of its users. Run `sacctmgr "
                f"modify user {account} set adminlevel=operator`, and name that account in "
                "slurm.operator."
            )
        if not self.accounting:
            yield (
                "Slurm has no accounting (AccountingStorageType): jobs that ended more than "
                f"{self.min_job_age_s:.0f} s ago (MinJobAge) cannot be looked up, and projects are "
                "not limited by Slurm."
            )
        if self.min_job_age_s < 60:
            yield (
                f"Slurm removes a job {self.min_job_age_s:.0f} s after its end (MinJobAge). Set it to "
                "300, or the platform can miss the end of a job while it is down."
            )
        if not self.job_requeue:
            yield (
                "Slurm requeues no job after a node failure (JobRequeue=0) unless the job requests "
                "it: jobs whose retry policy permits it do."
            )


def config_values(output: str) -> Iterator[tuple[str, str]]:
    """Yield names and values of the output of ``scontrol show config``."""
    for line in output.splitlines():
        if (match := _LINE.fullmatch(line.rstrip())) is not None:
            yield match[1], match[2].strip()


def _switch_wait(values: Mapping[str, str]) -> int:
    """Return ``max_switch_wait`` of SchedulerParameters in seconds, 300 if it is not set."""
    for word in _parse_words(values, "SchedulerParameters"):
        name, _, number = word.partition("=")
        if name == "max_switch_wait" and number.isdecimal():
            return int(number)
    return 300


def _find_memory_enforcer(values: Mapping[str, str]) -> Holder:
    """Return which component enforces memory limits, from TaskPlugin and JobAcctGatherParams in
    slurm.conf and ConstrainRAMSpace in cgroup.conf.
    """
    if "task/cgroup" in _parse_words(values, "TaskPlugin") and _is_yes(values, "ConstrainRAMSpace"):
        return Holder.CGROUP
    gathers = not _parse_words(values, "JobAcctGatherType") <= {"jobacct_gather/none"}
    kills = "overmemorykill" in _parse_words(values, "JobAcctGatherParams")
    return Holder.SAMPLING if gathers and kills else Holder.NOBODY


def _find_cpu_enforcer(values: Mapping[str, str]) -> Holder:
    """Return which component enforces CPU limits, from TaskPlugin in slurm.conf and ConstrainCores
    in cgroup.conf.
    """
    plugins = _parse_words(values, "TaskPlugin")
    if "task/cgroup" in plugins and _is_yes(values, "ConstrainCores"):
        return Holder.CGROUP
    return Holder.BINDING if "task/affinity" in plugins else Holder.NOBODY


def _is_yes(values: Mapping[str, str], key: str) -> bool:
    return values.get(key, "").lower() in ("yes", "true", "1")


def _parse_words(values: Mapping[str, str], key: str) -> frozenset[str]:
    value = values.get(key, "").lower()
    if value in ("", "(null)", "none"):
        return frozenset()
    return frozenset(word.strip() for word in value.split(","))


def _parse_count(values: Mapping[str, str], key: str) -> int | None:
    number = values.get(key, "")
    return int(number) if number.isdecimal() else None


def _parse_seconds(values: Mapping[str, str], key: str, default: float) -> float:
    number = values.get(key, "").partition(" ")[0]
    return float(number) if number.isdecimal() else default
