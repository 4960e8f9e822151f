"""Batch scripts run the same by sbatch and as imported jobs.

Each is submitted by sbatch and by ``aitne import --submit`` from folders of their own, all at once. Tasks, Slurm's
counts, allocated amounts, folders, and exit codes are compared when all have ended. CPU binding is not: the cluster has
no task plug-in.
"""

from __future__ import annotations

import difflib
import json
import os
import pwd
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aitne.cli.main import main
from aitne.client import Client
from aitne.core.platform.dev_cluster import DevCluster
from tests.support.platform import RunningPlatform
from tests.support.slurm import run_as
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long(third=2), pytest.mark.platform, pytest.mark.timeout(400)]

SCRIPTS = Path(__file__).resolve().parents[2] / "assets" / "sbatch"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.sbatch"))
NEEDS = {"zsh": "zsh", "perl": "perl", "mpirun-np": "mpirun", "mpirun-all": "mpirun"}
NEEDS |= {"mpiexec-variable": "mpirun", "exclusive-node": "mpirun"}
REFUSED = {"hetjob"}
USER = "alice"
PATIENCE_S = 240.0
PLACEMENT = re.compile(
    r"SLURM_(TASKS_PER_NODE|NTASKS_PER_NODE|JOB_CPUS_PER_NODE|CPUS_ON_NODE|NNODES|JOB_NUM_NODES|STEP_TASKS_PER_NODE)=\S*"
)
"""Counts that differ where a note says that sbatch may place the tasks in another way."""
MAY_PLACE = "where sbatch may"
PER_NODE = re.compile(r"SLURM_NTASKS_PER_NODE=\S*")
"""An imported job has it also where the script has the number of all tasks only."""


@dataclass(frozen=True)
class Outcome:
    """The output and the exit codes of a script."""

    lines: tuple[str, ...]
    """The lines that its processes have printed, in alphabetical order."""
    exit_codes: tuple[int, ...]
    """Of the job, or of each task of an array."""


@pytest.fixture
def folder(slurm_cluster: DevCluster) -> Iterator[Path]:
    """A folder of the user's with one for each script and way."""
    person = pwd.getpwnam(USER)
    root = Path(person.pw_dir, f"scripts-{slurm_cluster.name}")
    for way in ("sbatch", "aitne"):
        for name in NAMES:
            place = root / way / name
            shutil.copytree(SCRIPTS / "tools", place)
            shutil.copy(SCRIPTS / f"{name}.sbatch", place)
    for path in (root, *root.rglob("*")):
        os.chown(path, person.pw_uid, person.pw_gid)
    yield root
    shutil.rmtree(root)


def lines_of(place: Path, notes: str) -> tuple[str, ...]:
    """Return the sorted output of a script, without the parts that may differ from sbatch."""
    try:
        text = (place / "lines").read_text()
    except FileNotFoundError:
        return ()
    script = (place / f"{place.name}.sbatch").read_text()
    if "tasks-per-node" not in script:
        text = PER_NODE.sub("", text)
    return tuple(sorted((PLACEMENT.sub("", text) if MAY_PLACE in notes else text).splitlines()))


def difference(there: Outcome, here: Outcome) -> str:
    lines = difflib.unified_diff(there.lines, here.lines, "sbatch", "imported", n=0, lineterm="")
    return "\n".join(lines)


def by_sbatch(cluster: DevCluster, place: Path) -> str:
    """Submit a script from its folder, in the environment of a login; the JobID."""
    command = f"cd {place} && exec sbatch --parsable --chdir=. -o log {place.name}.sbatch"
    return run_as(cluster, USER, "bash", "-lc", command).strip()


def ended_by_sbatch(cluster: DevCluster, jobs: dict[str, str]) -> dict[str, list[int]]:
    """Return the exit codes of the ended jobs by their script, from Slurm's accounting."""
    argv = ["sacct", "-XnP", "-o", "JobID,State,ExitCode", "-j", ",".join(jobs.values())]
    codes: dict[str, list[int]] = {}
    live = set()
    for line in run_as(cluster, USER, *argv).splitlines():
        number, state, code = line.split("|")
        job = re.split(r"[_.]", number)[0]
        if state.split()[0] in {"PENDING", "RUNNING", "COMPLETING", "REQUEUED"}:
            live.add(job)
        codes.setdefault(job, []).append(int(code.partition(":")[0]))
    return {
        name: sorted(codes[job]) for name, job in jobs.items() if job in codes and job not in live
    }


def amounts(cluster: DevCluster, jobs: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return what Slurm allocated to each job, with its time limit, by its script."""
    argv = ["sacct", "-XnP", "-o", "JobID,AllocTRES,Timelimit", "-j", ",".join(jobs.values())]
    found: dict[str, tuple[str, str]] = {}
    for line in run_as(cluster, USER, *argv).splitlines():
        number, tres, limit = line.split("|")
        found[re.split(r"[_.]", number)[0]] = tres, limit
    return {name: found[job] for name, job in jobs.items()}


def by_import(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str | None, str]:
    """Submit a script by ``aitne import --submit`` from its folder; the job's id and what the command noted."""
    monkeypatch.chdir(place)
    status = main(["import", f"{place.name}.sbatch", "--submit", "--yes", "--json"])
    said = capsys.readouterr()
    return (json.loads(said.out)["id"] if status == 0 else None), said.err


def test_scripts_run_as_with_sbatch(
    slurm_cluster: DevCluster,
    slurm_platform: RunningPlatform,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [name for name in NAMES if name not in NEEDS or shutil.which(NEEDS[name])]
    monkeypatch.setenv("AITNE_URL", slurm_platform.url)
    token = slurm_platform.token_of(USER)
    monkeypatch.setenv("AITNE_TOKEN", token)
    client = Client(slurm_platform.url, token)
    plain: dict[str, str] = {}
    imported: dict[str, str] = {}
    notes: dict[str, str] = {}
    for name in names:
        job, notes[name] = by_import(folder / "aitne" / name, monkeypatch, capsys)
        if name in REFUSED:
            assert job is None, f"{name} was submitted"
            continue
        assert job is not None, (name, notes[name])
        imported[name] = job
        plain[name] = by_sbatch(slurm_cluster, folder / "sbatch" / name)

    codes: dict[str, list[int]] = {}
    rows = {}

    def ended() -> bool:
        codes.update(ended_by_sbatch(slurm_cluster, plain))
        rows.update({job.id: job for job in client.jobs.list(top_level=True, limit=200)})
        live = [job for job in imported.values() if not rows[job].ended]
        return codes.keys() >= plain.keys() and not live

    eventually("all have ended", ended, within_s=PATIENCE_S, poll_s=1.0)
    logs = sorted((folder / "aitne" / "log-files").glob("log-files*.out"))
    assert [path.read_text() for path in logs] == ["task 0\n", "task 1\n"]
    assert len([*(folder / "aitne" / "log-files").glob("*.err")]) == 2
    different = {}
    for name in imported:
        job = rows[imported[name]]
        tasks = client.jobs.list(array_job_id=job.id) if job.array else [job]
        here = Outcome(
            lines_of(folder / "aitne" / name, notes[name]),
            tuple(sorted(task.exit_code or 0 for task in tasks)),
        )
        there = Outcome(lines_of(folder / "sbatch" / name, notes[name]), tuple(codes[name]))
        if here != there or not here.lines:
            different[name] = (there, here)
    there_amounts = amounts(slurm_cluster, plain)
    here_amounts = amounts(
        slurm_cluster, {name: rows[job].scheduler_id or "" for name, job in imported.items()}
    )
    assert here_amounts == {
        name: here_amounts[name] if MAY_PLACE in notes[name] else requested
        for name, requested in there_amounts.items()
    }
    assert not different, "\n".join(
        f"{name}: {there.exit_codes}, imported {here.exit_codes}\n{difference(there, here)}"
        for name, (there, here) in different.items()
    )
