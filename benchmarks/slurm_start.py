"""Time from the submission of a batch job to its first command, compared with a bare sbatch."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from aitne.supervisor import node_software_installation
from benchmarks.figures import Figure, Row
from benchmarks.processes import Http, eventually
from benchmarks.slurm import USER, Slurm, cluster, platform
from benchmarks.stats import median, median_ratio

NAME = "slurm_start"
SOFTWARE = Path("/var/cache/aitne/software")
"""The nodes' software, made once for all clusters of this machine and shared with the tests."""
_START_S = 60.0


def measure(*, quick: bool) -> Figure:
    """Measure one job of each way in turn, on idle nodes."""
    count = 6 if quick else 40
    pairs: list[tuple[float, float]] = []
    with cluster() as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        Path(folder).chmod(0o755)
        shared = Path(folder) / USER
        shared.mkdir()
        who = pwd.getpwnam(USER)
        os.chown(shared, who.pw_uid, who.pw_gid)
        slurm.start_all()
        with platform(slurm, Path(folder), "slurm", software_dir=SOFTWARE) as ours:
            node_software_installation.ensure_node_software(ours.settings, lambda _: None)
            http = ours.http(ours.token_of(USER))
            with ours.controller():
                _through_platform(http, shared / "first")
                for number in range(count):
                    mine, bare = shared / f"ours-{number}", shared / f"bare-{number}"
                    if number % 2:
                        took = _through_platform(http, mine)
                        pairs.append((took, _by_sbatch(slurm, bare)))
                    else:
                        theirs = _by_sbatch(slurm, bare)
                        pairs.append((_through_platform(http, mine), theirs))
                eventually("the platform's notice of the ends", lambda: not ours.live())
        release = slurm.about.slurm_release
    return Figure(
        NAME,
        "The start of a batch job over a bare sbatch",
        [
            Row("over sbatch", "x", median_ratio(pairs)),
            Row("through the platform", "ms", median([mine * 1e3 for mine, _ in pairs])),
            Row("sbatch", "ms", median([bare * 1e3 for _, bare in pairs])),
            Row("more than sbatch", "ms", median([(mine - bare) * 1e3 for mine, bare in pairs])),
        ],
        [
            f"Slurm {release}, idle nodes on the same machine. From `POST /api/v1/jobs`, or from the "
            "start of sbatch, until the job's first command writes the time.",
        ],
    )


def _through_platform(http: Http, file: Path) -> float:
    began = time.time()
    body = {"name": "benchmark", "commands": [f"date +%s.%N > {file}"], "workdir": "/tmp"}
    http.post("/api/v1/jobs", body)
    return _start_time_in(file) - began


def _by_sbatch(slurm: Slurm, file: Path) -> float:
    began = time.time()
    argv = ("sbatch", "--chdir=/tmp", "--output=/dev/null", "--mem=100M", "--time=1")
    slurm.run_as(USER, argv, f"#!/bin/sh\ndate +%s.%N > {file}\n")
    return _start_time_in(file) - began


def _start_time_in(file: Path) -> float:
    eventually("a job's start", lambda: file.exists() and file.read_text().endswith("\n"), _START_S)
    return float(file.read_text())
