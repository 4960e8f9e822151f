"""Runs of batch scripts both ways, and what differs between the two."""

from __future__ import annotations

import pwd
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from aitne.client import Client, Job
from aitne.core.jobs.sbatch_conversion_state import Note
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.compare_sbatch import records
from tests.support.compare_sbatch.explained import is_explained
from tests.support.compare_sbatch.outcome import (
    FIRST_JOB,
    Outcome,
    listed,
    log_names,
    read_outcome,
)
from tests.support.compare_sbatch.scripts import BatchScript, copy_script
from tests.support.compare_sbatch.submission import (
    USER,
    Submission,
    by_platform,
    by_sbatch,
    platform_environment,
)
from tests.support.platform import RunningPlatform
from tests.support.slurm import run_as

PATIENCE_S = 280.0
"""Time for all scripts; slurmctld forgets ended jobs after 300 s."""
_POLL_S = 1.0


class Result(StrEnum):
    """Result of a comparison."""

    ALIKE = "alike"
    REFUSED = "refused"
    """The platform refuses the script before it submits it."""
    NOTED = "different, noted"
    """Notes of the import explain all that differs."""
    DIFFERENT = "different"
    """Something differs without a word."""
    UNFINISHED = "not ended in time"
    LEFT_OUT = "left out"
    """A program that the script needs is missing here."""


@dataclass(frozen=True)
class Difference:
    """Values that one of the two has and the other has not."""

    aspect: str
    sbatch: tuple[str, ...]
    platform: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """Comparison of one script."""

    name: str
    result: Result
    reason: str = ""
    notes: tuple[str, ...] = ()
    """Notes of the import."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of each aspect with sbatch."""
    differences: tuple[Difference, ...] = ()


@dataclass
class _Run:
    """A script that was submitted both ways."""

    script: BatchScript
    places: Mapping[str, Path]
    before: frozenset[str]
    sbatch: Submission
    platform: Submission


def compare(
    scripts: Sequence[BatchScript], cluster: DevCluster, platform: RunningPlatform
) -> list[Row]:
    """Run scripts both ways, all at once, from folders of their own, and return a row for each."""
    usable = [script for script in scripts if script.missing is None]
    rows = [
        Row(script.name, Result.LEFT_OUT, f"{script.missing} is not installed here")
        for script in scripts
        if script.missing is not None
    ]
    token = platform.token_of(USER)
    client = Client(platform.url, token)
    _begin_job_ids(cluster)
    with _folders(cluster, usable) as places, platform_environment(platform, token):
        runs = [_submit(cluster, script, places[script.name]) for script in usable]
        held = _wait(cluster, client, runs)
        rows += [_compare(client, run, held) for run in runs]
    return sorted(rows, key=lambda row: row.name)


def _begin_job_ids(cluster: DevCluster) -> None:
    """Let Slurm count from ``FIRST_JOB`` on, so that no other number looks like a JobID."""
    line = f"FirstJobId={FIRST_JOB}\n"
    text = cluster.slurm_conf.read_text()
    if line not in text:
        cluster.slurm_conf.write_text(text + line)
        run_as(cluster, "root", "scontrol", "reconfigure")


@contextmanager
def _folders(
    cluster: DevCluster, scripts: Sequence[BatchScript]
) -> Iterator[Mapping[str, Mapping[str, Path]]]:
    """Yield the folders of each script, one for each way; they are removed in the end."""
    account = pwd.getpwnam(USER)
    root = Path(account.pw_dir, f"scripts-{cluster.name}")
    shutil.rmtree(root, ignore_errors=True)
    places = {
        script.name: {way: root / way / script.name for way in ("sbatch", "platform")}
        for script in scripts
    }
    try:
        for script in scripts:
            for place in places[script.name].values():
                copy_script(script, place, account.pw_uid, account.pw_gid)
        for path in (root, *root.iterdir()) if scripts else ():
            shutil.chown(path, account.pw_uid, account.pw_gid)
        yield places
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _submit(cluster: DevCluster, script: BatchScript, places: Mapping[str, Path]) -> _Run:
    before = listed(places["sbatch"])
    platform = by_platform(script, places["platform"])
    # If the platform refuses the script, the question is only whether sbatch does too.
    test = platform.job is None
    plain = by_sbatch(cluster, script, places["sbatch"], test=test)
    return _Run(script, places, before, plain, platform)


def _wait(cluster: DevCluster, client: Client, runs: Sequence[_Run]) -> dict[str, records.Record]:
    """Wait until all jobs have ended, or for ``PATIENCE_S``, and return Slurm's records of them by
    their JobID.
    """
    held: dict[str, records.Record] = {}
    ours = {run.platform.job for run in runs if run.platform.job is not None}
    give_up = time.monotonic() + PATIENCE_S
    while True:
        held |= records.read_records(cluster)
        numbers = {run.sbatch.job for run in runs if run.sbatch.job and run.platform.job}
        # By id: a list would also contain the jobs that sbatch and the scripts have submitted.
        ours = {job for job in ours if not client.jobs.get(job).ended}
        live = [number for number in numbers if not records.has_ended(records.of_job(held, number))]
        live += ours
        # Jobs that a script has submitted are among those of the user.
        live += run_as(cluster, USER, "squeue", "-h", "-u", USER, "-o", "%i").split()
        if not live or time.monotonic() > give_up:
            return held | records.read_records(cluster)
        time.sleep(_POLL_S)


def _compare(client: Client, run: _Run, held: Mapping[str, records.Record]) -> Row:
    notes = tuple(f"line {note.line}: {note.option} {note.message}" for note in run.platform.notes)
    name = run.script.name
    if run.platform.job is None:
        also = "" if run.sbatch.job else f" (sbatch: {_last(run.sbatch.refusal)})"
        return Row(name, Result.REFUSED, f"{run.platform.refusal}{also}", notes)
    if run.sbatch.job is None:
        job = client.jobs.get(run.platform.job)
        if job.scheduler_id is None and job.ended:
            return Row(name, Result.REFUSED, job.message or "", notes)
        difference = Difference("submission", (run.sbatch.refusal,), ("submitted",))
        result = result_of((difference,), run.platform.notes)
        return Row(name, result, differences=(difference,), notes=notes)
    folder = run.places["sbatch"]
    its_records = records.of_job(held, run.sbatch.job)
    logs = log_names(folder, its_records)
    plain = read_outcome(folder, run.before, its_records, logs, records.ends(its_records))
    our_records, ends = _platform_records(client, run.platform.job, held)
    live = [] if records.has_ended(its_records) else ["sbatch"]
    live += [] if client.jobs.get(run.platform.job).ended else ["platform"]
    if live:
        return Row(name, Result.UNFINISHED, " and ".join(live), notes)
    here = read_outcome(run.places["platform"], run.before, our_records, logs, ends)
    found = tuple(differences(plain, here))
    return Row(name, result_of(found, run.platform.notes), "", notes, plain.aspects, found)


def result_of(found: Sequence[Difference], notes: Sequence[Note]) -> Result:
    """Return the result for a script that ran both ways, or that sbatch alone refuses."""
    if not found:
        return Result.ALIKE
    noted = all(is_explained(difference.aspect, notes) for difference in found)
    return Result.NOTED if noted else Result.DIFFERENT


def _platform_records(
    client: Client, job_id: str, held: Mapping[str, records.Record]
) -> tuple[list[records.Record], list[str]]:
    """Return Slurm's records of a job of the platform, and how it has ended there."""
    job = client.jobs.get(job_id)
    tasks = [*client.jobs.list(array_job_id=job.id)] if job.array else [job]
    numbers = {task.scheduler_id.partition("_")[0] for task in tasks if task.scheduler_id}
    rows = [record for number in numbers for record in records.of_job(held, number)]
    return rows, [_end(task) for task in tasks]


def _end(job: Job) -> str:
    return f"{job.state} {128 + job.signal if job.signal else job.exit_code or 0}"


def differences(plain: Outcome, here: Outcome) -> Iterator[Difference]:
    """Yield what differs between an outcome with sbatch and one of the platform."""
    for aspect, values in plain.aspects.items():
        if aspect == "command" and not here.aspects[aspect]:
            continue  # a script that reads it has a note
        if difference := _difference(aspect, values, here.aspects[aspect]):
            yield difference
    for name in sorted({*plain.environment, *here.environment}):
        values, others = plain.environment.get(name, ()), here.environment.get(name, ())
        if difference := _difference(f"environment {name}", values, others):
            yield difference


def _difference(aspect: str, plain: Sequence[str], here: Sequence[str]) -> Difference | None:
    left, more = list(plain), []
    for value in here:
        if value in left:
            left.remove(value)
        else:
            more.append(value)
    return Difference(aspect, tuple(left), tuple(more)) if left or more else None


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
