"""Settings of slurm.conf and cgroup.conf that the platform needs or recommends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig, config_values
from aitne.core.models.cluster import Holder

_TASK = "TaskPlugin=task/cgroup,task/affinity"


@dataclass(frozen=True, slots=True)
class SlurmReport:
    """The settings of a Slurm, as ``scontrol show config`` prints them."""

    config: SlurmConfig
    values: Mapping[str, str]

    @classmethod
    def parse(cls, output: str) -> SlurmReport:
        """Parse the output of ``scontrol show config``."""
        return cls(SlurmConfig.parse(output), dict(config_values(output)))

    def words(self, name: str) -> set[str]:
        """Return the words of a setting with several values, in lower case."""
        return {word.strip().lower() for word in self.values.get(name, "").split(",")}

    def is_yes(self, name: str) -> bool:
        """Return whether a setting is yes."""
        return self.values.get(name, "").lower() in ("yes", "true", "1")

    @property
    def has_gpus(self) -> bool:
        """True if Slurm allocates GPUs."""
        return "gpu" in self.words("GresTypes")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A setting of Slurm that the platform needs or recommends."""

    name: str
    is_met: Callable[[SlurmReport], bool]
    line: str
    """The lines of slurm.conf and cgroup.conf that set it."""
    effect: str
    """What is missing without it, as a sentence."""

    def message(self, report: SlurmReport) -> str:
        """Return the sentences about a Slurm that does not meet it."""
        return f"{self.name} is {report.values.get(self.name, '(null)')}. {self.effect}"


REQUIREMENTS = (
    Requirement(
        "AccountingStorageType",
        lambda report: report.config.accounting,
        "AccountingStorageType=accounting_storage/slurmdbd",
        "Without accounting an ended job is lost if the platform was down for longer than MinJobAge, "
        "usage counts no arrays, and projects are not limited by Slurm.",
    ),
    Requirement(
        "AccountingStoreFlags",
        lambda report: not report.config.accounting or "job_comment" in report.config.stores,
        "AccountingStoreFlags=job_comment",
        "Accounting keeps no comments, by which the platform recognizes its jobs, beside their names.",
    ),
    Requirement(
        "MinJobAge",
        lambda report: report.config.min_job_age_s >= 60,
        "MinJobAge=300",
        "slurmctld forgets ended jobs so early that the platform can miss an end while it restarts.",
    ),
    Requirement(
        "JobRequeue",
        lambda report: report.config.job_requeue,
        "JobRequeue=1",
        "After the failure of a node, jobs are requeued only if they ask for it.",
    ),
    Requirement(
        "PrologFlags",
        lambda report: "contain" in report.words("PrologFlags"),
        "PrologFlags=Contain",
        "A job's control group exists only once its first step starts, and processes that a user starts on "
        "a node by SSH do not belong to the job there and outlive it.",
    ),
    Requirement(
        "ProctrackType",
        lambda report: report.values.get("ProctrackType") == "proctrack/cgroup",
        "ProctrackType=proctrack/cgroup",
        "Processes that leave the process tree of their job can outlive it.",
    ),
    Requirement(
        "ConstrainRAMSpace",
        lambda report: report.config.memory_held_by in (Holder.CGROUP, Holder.SAMPLING),
        f"{_TASK} and ConstrainRAMSpace=yes",
        "Nothing ends a job that uses more memory than it was allocated.",
    ),
    Requirement(
        "ConstrainCores",
        lambda report: report.config.cpus_held_by in (Holder.CGROUP, Holder.BINDING),
        f"{_TASK} and ConstrainCores=yes",
        "Nothing keeps a job on its own CPUs.",
    ),
    Requirement(
        "ConstrainDevices",
        lambda report: (
            not report.has_gpus
            or ("task/cgroup" in report.words("TaskPlugin") and report.is_yes("ConstrainDevices"))
        ),
        f"{_TASK} and ConstrainDevices=yes",
        "Nothing keeps a job from the GPUs of other jobs.",
    ),
    Requirement(
        "AccountingStorageTRES",
        lambda report: (
            not report.has_gpus
            or not report.config.accounting
            or "gres/gpu" in report.words("AccountingStorageTRES")
        ),
        "AccountingStorageTRES=gres/gpu",
        "Accounting does not count GPUs.",
    ),
    Requirement(
        "SelectType",
        lambda report: "cons_tres" in report.values.get("SelectType", ""),
        "SelectType=select/cons_tres",
        "Slurm cannot allocate single GPUs of a node.",
    ),
)


def list_missing_settings(report: SlurmReport) -> Iterator[Requirement]:
    """Yield the settings that a Slurm lacks."""
    for requirement in REQUIREMENTS:
        if not requirement.is_met(report):
            yield requirement
