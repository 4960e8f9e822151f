"""Routes that create job files from a batch script or from an existing job."""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import APIRouter
from pydantic import Field

from aitne.api.dependencies import PlatformDep, Reader
from aitne.api.routers import V1
from aitne.api.routers.jobs import JobId
from aitne.core.errors import Conflict, InvalidInput
from aitne.core.jobs.job_file_rendering import render_job_file
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.jobs.sbatch_conversion_state import Note
from aitne.core.jobs.sbatch_import import MAX_CHARS, ImportedScript, import_sbatch
from aitne.core.models.base import Frozen, Strict

router = APIRouter(prefix=V1, tags=["jobs"])


class BatchScript(Strict):
    """A batch script for sbatch."""

    script: str = Field(
        max_length=MAX_CHARS,
        description="Text of the batch script.",
        examples=["#!/bin/bash\n#SBATCH --gpus=1\npython train.py\n"],
    )


class WrittenJobFile(Frozen):
    """A job file, as text and as JSON for `POST /jobs`."""

    yaml: Annotated[str, Field(description="The job file for `aitne apply -f`.")]
    file: Annotated[dict[str, Any], Field(description="The same job file as JSON.")]

    @classmethod
    def from_file(cls, file: dict[str, Any]) -> Self:
        """Create the answer from a job file's fields, with the same file as YAML text."""
        return cls(yaml=render_job_file(file), file=file)


class ImportedJobFile(WrittenJobFile):
    """A job file made from a batch script."""

    notes: Annotated[
        list[Note], Field(description="Options that could not be converted, with reasons.")
    ]

    @classmethod
    def from_conversion(cls, conversion: ImportedScript) -> Self:
        """Create the answer from a converted batch script: job file, YAML text, and notes on what
        was not converted."""
        return cls(
            yaml=render_job_file(conversion.file),
            file=conversion.file,
            notes=list(conversion.notes),
        )


@router.post("/jobs:import")
async def import_job(body: BatchScript, actor: Reader, platform: PlatformDep) -> ImportedJobFile:
    """Convert a batch script to a job file. Nothing is stored.

    A script that sbatch would refuse is refused with its line.
    """
    permitted = platform.settings.slurm.extra
    try:
        return ImportedJobFile.from_conversion(import_sbatch(body.script, permitted=permitted))
    except ValueError as error:
        raise InvalidInput.field("script", str(error)) from error


@router.get("/jobs/{job_id}/file")
async def get_job_file(job_id: JobId, actor: Reader, platform: PlatformDep) -> WrittenJobFile:
    """Return the job file that would create the same job again."""
    job = await platform.jobs.get(actor, job_id)
    if job.session_id is not None:
        raise Conflict(
            "A rank group has no job file, because it belongs to a session. Start ranks in a running "
            "session: `aitne ranks start`."
        )
    return WrittenJobFile.from_file(job_to_file(job.spec))
