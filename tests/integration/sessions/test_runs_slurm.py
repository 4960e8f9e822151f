"""A sweep on a real Slurm, as its user: settings, results, what it ran on, and good enough."""

from __future__ import annotations

import pytest

from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support import realtime
from tests.support.platform import RunningPlatform
from tests.support.slurm import run_as

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(400),
    realtime.PLATFORM,
]

MEASURE = """
printf '{"step": 1, "accuracy": %s}\\n' "$AITNE_PARAM_X" > "$AITNE_METRICS/metrics.jsonl"
cp "$AITNE_PARAMS" "seen-$SLURM_ARRAY_TASK_ID.json"
case "$AITNE_PARAM_X" in 0.9) sleep 5 ;; *) sleep 300 ;; esac
"""
MAKE = """
set -e
rm -rf ~/swept && mkdir ~/swept && cd ~/swept && git init -q -b main && echo one > file && git add file
git -c user.name=a -c user.email=a@example.org commit -qm first && echo two > file
"""


def test_a_sweep_stops_when_one_task_is_good_enough(
    slurm_cluster: DevCluster, slurm_platform: RunningPlatform
) -> None:
    run_as(slurm_cluster, "alice", "bash", "-c", MAKE)
    alice = Client(slurm_platform.url, slurm_platform.token_of("alice"))
    job = alice.jobs.create(
        {
            "name": "swept",
            "workdir": "~/swept",
            "commands": [MEASURE],
            "resources": {"cpu": 1, "memory": "256M"},
            "max_duration": "10m",
            "sweep": {
                "parameters": {"x": [0.1, 0.9, 0.2, 0.3]},
                "max_parallel": 2,
                "metric": "accuracy",
                "stop_when": {"value": 0.8},
            },
        }
    )
    ended = alice.jobs.wait(job.id, timeout_s=150)
    found = alice.jobs.sweep(job.id)
    states = {task.task: task.state for task in found.tasks}
    assert states[1] == "COMPLETED", (states, ended.message)
    assert {states[0], states[2], states[3]} == {"CANCELLED"}
    assert (found.best, found.tasks[1].values) == (1, {"accuracy": 0.9})
    rest = alice.jobs.get(found.tasks[2].job_id)
    assert "Task 1 reached the goal: accuracy 0.9" in (rest.message or "")
    snapshot = alice.jobs.snapshot(found.tasks[1].job_id).taken
    assert snapshot is not None
    assert snapshot["git"]["dirty"]
    assert "-one\n+two\n" in snapshot["git"]["diff"]
    assert snapshot["workdir"].endswith("/swept")
    assert alice.jobs.results(found.tasks[1].job_id).series == {"accuracy": [[1, 0.9]]}
    written = {each.path for each in alice.jobs.files(found.tasks[1].job_id).files}
    assert "seen-1.json" in written
