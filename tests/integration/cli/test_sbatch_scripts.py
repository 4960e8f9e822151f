"""Batch scripts run the same by sbatch and as imported jobs, or the import says what differs.

Each is submitted by sbatch and by ``aitne import --submit`` from folders of their own, all at once. Lines,
files, Slurm's record, the ends and the variables ``SLURM_*`` are compared when all have ended. CPU binding is
not: the cluster has no task plug-in.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.compare_sbatch.comparison import Result, Row, compare
from tests.support.compare_sbatch.report import succeeded, table
from tests.support.compare_sbatch.scripts import read_scripts
from tests.support.platform import RunningPlatform

pytestmark = [pytest.mark.platform, pytest.mark.timeout(400)]

SCRIPTS = Path(__file__).resolve().parents[2] / "assets" / "sbatch"
SHORT = {
    *("arguments", "array-of-parameters", "gpus-per-node", "memory-per-cpu", "output-and-error"),
    *("own-path", "refused-value", "script-file", "set-e", "steps-side-by-side", "wrap"),
}
"""Scripts that run with every change."""
REFUSED = {
    *(
        "hetjob",
        "refused-memory",
        "refused-option",
        "refused-value",
        "time-unlimited",
        "unknown-qos",
    ),
}
NOTED = {
    *(
        "cancels-itself",
        "output-none",
        "own-path",
        "requeues-itself",
        "tasks-per-gpu",
        "uneven-tasks",
    ),
}
"""Scripts that run differently, as a note of the import says."""
ON_ONE_NODE = "run on one node, where sbatch may use more"
"""Part of the note on scripts that run differently if sbatch finds too few free CPUs on one node."""


def check(rows: list[Row], scripts: int) -> None:
    """Check that each script ran alike, or that a note or refusal says how it differs."""
    printed = table(rows)
    assert succeeded(rows), printed
    results = {row.name: row.result for row in rows if row.result is not Result.LEFT_OUT}
    named = REFUSED & results.keys()
    assert {name for name, result in results.items() if result is Result.REFUSED} == named, printed
    noted = [row for row in rows if row.result is Result.NOTED]
    spread = {row.name for row in noted if any(ON_ONE_NODE in note for note in row.notes)}
    assert {row.name for row in noted} - spread <= NOTED, printed
    reasons = [row.reason for row in rows if row.result is Result.REFUSED]
    assert all("line " in reason or ".sbatch:" in reason for reason in reasons), printed
    assert len(rows) == scripts


def test_some_scripts_run_as_with_sbatch(
    slurm_cluster: DevCluster, slurm_platform: RunningPlatform
) -> None:
    scripts = [script for script in read_scripts(SCRIPTS) if script.name in SHORT]
    check(compare(scripts, slurm_cluster, slurm_platform), len(SHORT))


@pytest.mark.long(third=2)
def test_all_scripts_run_as_with_sbatch(
    slurm_cluster: DevCluster, slurm_platform: RunningPlatform
) -> None:
    scripts = read_scripts(SCRIPTS)
    check(compare(scripts, slurm_cluster, slurm_platform), len(scripts))
