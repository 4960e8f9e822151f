"""All checks, one module for each subject."""

from __future__ import annotations

from aitne.operations.doctor.check_registry import CHECKS, DoctorCheck, Subject
from aitne.operations.doctor.checks import (
    broker_and_accounts,
    database,
    external_services,
    files,
    machine,
    network,
    nodes,
    processes,
    slurm,
)

_MODULES = (
    files,
    machine,
    processes,
    database,
    network,
    external_services,
    slurm,
    broker_and_accounts,
    nodes,
)
"""Importing them registers their checks."""
JOB_CHECKS = frozenset(
    {
        *("test-job", "node-folder", "node-clock", "node-portal", "portal-node"),
        *("node-gpus", "node-apptainer"),
    }
)
"""Names of the checks that wait for jobs."""


def all_checks() -> list[DoctorCheck]:
    """Return all checks in the order of the output."""
    order = list(Subject)
    return sorted(CHECKS.values(), key=lambda check: order.index(check.subject))
