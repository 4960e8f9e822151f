"""Inspection of all that the platform depends on, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator

from aitne.core.models.check_result import CheckResult, CheckState
from aitne.operations.setup import machine_inspection, network_and_database_inspection
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.check_results import make_result
from aitne.operations.setup.slurm_inspection import SlurmSite


def run_inspection(answers: Answers, root: str) -> Iterator[CheckResult]:
    """Yield the results of all checks, as they become known. Nothing is changed.

    ``root`` is the folder below which files are written; another one than ``/`` is not this machine.
    """
    if root != "/":
        yield make_result(
            "machine",
            CheckState.SKIPPED,
            f"This machine is not inspected: the files are for the system in {root}.",
        )
        return
    yield from machine_inspection.check_machine(answers)
    yield from network_and_database_inspection.check_network(answers)
    if answers.scheduler == "slurm":
        yield from SlurmSite(answers).run_checks()
