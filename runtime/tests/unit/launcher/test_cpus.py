"""Number of CPUs that the launcher counts on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne_train.launcher.available_cpu_count import count_available_cpus

BOUND = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("line", "files", "cpus"),
    [
        ("0::/job/step", {"job/step/cpu.max": "max 100000", "job/cpu.max": "100000 100000"}, 1),
        ("0::/job", {"job/cpu.max": "150000 100000"}, min(BOUND, 2)),
        ("0::/job", {"job/cpu.max": "9900000 100000"}, BOUND),
        ("0::/job", {"job/cpu.max": "50000 100000"}, 1),
        ("0::/job", {}, BOUND),
        (
            "4:cpu,cpuacct:/job",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "100000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        (
            "4:cpu,cpuacct:/job",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            BOUND,
        ),
        ("3:memory:/job", {"job/cpu.max": "100000 100000"}, BOUND),
    ],
)
def test_quota_of_the_cgroup_limits_the_cpus(
    tmp_path: Path, line: str, files: dict[str, str], cpus: int
) -> None:
    groups = tmp_path / "cgroup"
    groups.write_text(f"{line}\n")
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert count_available_cpus(groups, tmp_path / "mount") == cpus


def test_process_without_a_list_of_cgroups_has_the_cpus_that_it_is_bound_to(tmp_path: Path) -> None:
    assert count_available_cpus(tmp_path / "none", tmp_path) == BOUND
