"""Configuration of a site's Slurm, read from ``scontrol show config``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aitne.core.models.node import Holder

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_\[\]]*)\s*= (.*)")


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """The few facts that matter here."""

    cluster: str = "slurm"
    release: str = "unknown"
    accounting: bool = False
    """Whether slurmdbd records accounts and ended jobs."""
    enforces: frozenset[str] = frozenset()
    """AccountingStorageEnforce."""
    stores: frozenset[str] = frozenset()
    """AccountingStoreFlags."""
    private: frozenset[str] = frozenset()
    """PrivateData."""
    message_timeout_s: float = 10.0
    min_job_age_s: float = 300.0
    job_requeue: bool = True
    max_array_size: int | None = None
    slurm_user: str = "root"
    memory_held_by: Holder = Holder.NOBODY
    cpus_held_by: Holder = Holder.NOBODY

    @classmethod
    def parse(cls, output: str) -> SlurmConfig:
        """Parse the configuration; missing values have Slurm's default."""
        said = dict(_pairs(output))
        size = said.get("MaxArraySize", "")
        return cls(
            cluster=said.get("ClusterName", "slurm"),
            release=said.get("SLURM_VERSION", "unknown"),
            accounting="slurmdbd" in said.get("AccountingStorageType", ""),
            enforces=_words(said, "AccountingStorageEnforce"),
            stores=_words(said, "AccountingStoreFlags"),
            private=_words(said, "PrivateData"),
            message_timeout_s=_seconds(said, "MessageTimeout", 10.0),
            min_job_age_s=_seconds(said, "MinJobAge", 300.0),
            job_requeue=said.get("JobRequeue", "1") != "0",
            max_array_size=int(size) if size.isdecimal() else None,
            slurm_user=said.get("SlurmUser", "root").partition("(")[0],
            memory_held_by=_memory_holder(said),
            cpus_held_by=_cpu_holder(said),
        )

    def notes(self, *, sees_all: bool, account: str) -> Iterator[str]:
        """Yield sentences for the administrator who starts the platform."""
        if "jobs" in self.private and not sees_all:
            yield (
                f"Slurm hides jobs of others (PrivateData=jobs), and {account} is neither operator "
                "nor administrator there: the platform sees no job of its users. Run `sacctmgr "
                f"modify user {account} set adminlevel=operator`, and name that account in "
                "slurm.operator."
            )
        if not self.accounting:
            yield (
                "Slurm keeps no accounting (AccountingStorageType): what ended more than "
                f"{self.min_job_age_s:.0f} s ago (MinJobAge) cannot be looked up, and projects are "
                "not limited by Slurm."
            )
        if self.min_job_age_s < 60:
            yield (
                f"Slurm forgets a job {self.min_job_age_s:.0f} s after its end (MinJobAge). Set it to "
                "300, or the end of a job can pass unseen while the platform is down."
            )
        if not self.job_requeue:
            yield (
                "Slurm starts no job again after its node failed (JobRequeue=0) unless the job asks "
                "for it: jobs whose retry policy allows it do ask."
            )


def _pairs(output: str) -> Iterator[tuple[str, str]]:
    for line in output.splitlines():
        if (match := _LINE.fullmatch(line.rstrip())) is not None:
            yield match[1], match[2].strip()


def _memory_holder(said: Mapping[str, str]) -> Holder:
    """Return what enforces memory limits: slurm.conf's TaskPlugin and JobAcctGatherParams,
    cgroup.conf's ConstrainRAMSpace.
    """
    if "task/cgroup" in _words(said, "TaskPlugin") and _yes(said, "ConstrainRAMSpace"):
        return Holder.CGROUP
    gathers = not _words(said, "JobAcctGatherType") <= {"jobacct_gather/none"}
    kills = "overmemorykill" in _words(said, "JobAcctGatherParams")
    return Holder.SAMPLING if gathers and kills else Holder.NOBODY


def _cpu_holder(said: Mapping[str, str]) -> Holder:
    """Return what enforces CPU limits: slurm.conf's TaskPlugin, cgroup.conf's ConstrainCores."""
    plugins = _words(said, "TaskPlugin")
    if "task/cgroup" in plugins and _yes(said, "ConstrainCores"):
        return Holder.CGROUP
    return Holder.BINDING if "task/affinity" in plugins else Holder.NOBODY


def _yes(said: Mapping[str, str], key: str) -> bool:
    return said.get(key, "").lower() in ("yes", "true", "1")


def _words(said: Mapping[str, str], key: str) -> frozenset[str]:
    value = said.get(key, "").lower()
    if value in ("", "(null)", "none"):
        return frozenset()
    return frozenset(word.strip() for word in value.split(","))


def _seconds(said: Mapping[str, str], key: str, default: float) -> float:
    number = said.get(key, "").partition(" ")[0]
    return float(number) if number.isdecimal() else default
