"""Settings of slurm.conf that the platform needs or recommends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """A setting of Slurm that the platform needs or recommends."""

    name: str
    fulfilled: Callable[[str], bool]
    line: str
    """The line of slurm.conf that sets it."""
    effect: str
    """What is missing without it, as a sentence."""


def words(value: str) -> set[str]:
    """Return the words of a setting with several values, in lower case."""
    return {word.strip().lower() for word in value.split(",")}


def _number(value: str) -> int:
    digits = value.partition(" ")[0]
    return int(digits) if digits.isdecimal() else 0


REQUIREMENTS = (
    Requirement(
        "AccountingStorageType",
        lambda value: "slurmdbd" in value,
        "AccountingStorageType=accounting_storage/slurmdbd",
        "Without accounting an ended job is lost if the platform was down for longer than MinJobAge, "
        "usage counts no arrays, and projects are not limited by Slurm.",
    ),
    Requirement(
        "AccountingStoreFlags",
        lambda value: "job_comment" in words(value),
        "AccountingStoreFlags=job_comment",
        "Accounting keeps no comments, by which the platform recognizes its jobs, beside their names.",
    ),
    Requirement(
        "MinJobAge",
        lambda value: _number(value) >= 60,
        "MinJobAge=300",
        "slurmctld forgets ended jobs so early that the platform can miss an end while it restarts.",
    ),
    Requirement(
        "JobRequeue",
        lambda value: _number(value) == 1,
        "JobRequeue=1",
        "After the failure of a node, jobs are requeued only if they ask for it.",
    ),
    Requirement(
        "PrologFlags",
        lambda value: "contain" in words(value),
        "PrologFlags=Contain",
        "Processes that a user starts on a node by SSH do not belong to the job there and outlive it.",
    ),
    Requirement(
        "ProctrackType",
        lambda value: "cgroup" in value,
        "ProctrackType=proctrack/cgroup",
        "Processes that leave the process tree of their job can outlive it.",
    ),
    Requirement(
        "TaskPlugin",
        lambda value: "task/cgroup" in words(value),
        "TaskPlugin=task/cgroup,task/affinity",
        "Jobs can use more CPUs and memory, and other GPUs, than they were allocated.",
    ),
    Requirement(
        "SelectType",
        lambda value: "cons_tres" in value,
        "SelectType=select/cons_tres",
        "Slurm cannot allocate single GPUs of a node.",
    ),
)
