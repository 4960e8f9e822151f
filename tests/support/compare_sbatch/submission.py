"""Submission of a batch script by sbatch, and by the platform's command line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from aitne.cli.main import main
from aitne.core.jobs.sbatch_call_parser import read_call
from aitne.core.jobs.sbatch_conversion_state import Note
from aitne.core.jobs.sbatch_import import import_sbatch
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.compare_sbatch.scripts import BatchScript
from tests.support.platform import RunningPlatform
from tests.support.slurm import run_as

USER = "alice"


@dataclass(frozen=True)
class Submission:
    """Answer to a submission."""

    job: str | None
    """ID of the job: Slurm's, or the platform's; None: it was refused."""
    refusal: str = ""
    notes: tuple[Note, ...] = ()


def by_sbatch(cluster: DevCluster, script: BatchScript, place: Path, *, test: bool) -> Submission:
    """Submit a script by sbatch from its folder, in the environment of a login; with ``test`` let
    sbatch only say whether it would submit it.
    """
    own = ("--test-only",) if test else ("--parsable",)
    call = shlex.join(["sbatch", *own, *script.call])
    try:
        number = run_as(
            cluster, USER, "bash", "-lc", f"cd {shlex.quote(str(place))} && exec {call}"
        )
    except subprocess.CalledProcessError as error:
        return Submission(None, str(error.stderr).strip())
    return Submission(number.strip().partition(";")[0] or "tested")


def by_platform(script: BatchScript, place: Path) -> Submission:
    """Submit a script by ``aitne import --submit`` from its folder; the environment has the address
    of the platform and a token.
    """
    with _inside(place):
        notes = _notes(script, place)
        with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
            status = main(["import", "--submit", "--yes", "--json", "--", *script.call])
    if status:
        return Submission(None, _reason(output.getvalue(), errors.getvalue()), notes)
    return Submission(json.loads(output.getvalue())["id"], notes=notes)


def _notes(script: BatchScript, place: Path) -> tuple[Note, ...]:
    """Return the notes of the import; those that the command prints have no marks of their own."""
    try:
        call = read_call(script.call, {})
        text = call.wrapped_script or (place / (call.script or "")).read_text()
        return import_sbatch(text, str(place), call.script, call=call).notes
    except (ValueError, OSError):
        return ()


def _reason(output: str, errors: str) -> str:
    """Return the sentence of an error that the command line has printed."""
    try:
        error = json.loads(output)["error"]
        lines = [problem["line"] for problem in error.get("problems", ()) if problem["line"]]
        place = f"line {', '.join(map(str, lines))}: " if lines else ""
        return f"{place}{error['message']}"
    except (ValueError, KeyError, TypeError):
        printed = (errors or output).strip().splitlines()
        return printed[-1] if printed else "without a reason"


@contextmanager
def platform_environment(platform: RunningPlatform, token: str) -> Iterator[None]:
    """Let commands of this process use the platform as the owner of the token; options of sbatch
    in the environment do not count.
    """
    before = dict(os.environ)
    for name in [name for name in before if name.startswith(("AITNE_", "SBATCH_", "SLURM_"))]:
        del os.environ[name]
    os.environ.update({"AITNE_URL": platform.url, "AITNE_TOKEN": token})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
