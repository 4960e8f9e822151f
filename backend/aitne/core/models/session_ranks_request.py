"""Request for the ranks of a rank group: a job whose ranks execute cells of a session's notebook."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from aitne.core.models.base import MemoryBytes, Seconds, Written, convert_off
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import RankGpu

DEFAULT_IDLE_S = 900
MOST_RANKS = 4_096


class RanksFile(Written):
    """Ranks to start for a session: the body of ``POST /api/v1/sessions/{id}/ranks``. All else,
    such as project, image, datasets and working folder, is that of the session."""

    ranks: int = Field(strict=True, ge=1, le=MOST_RANKS, description="Number of ranks in total.")
    nodes: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=MOST_RANKS,
        description="Number of nodes, on each of which as many ranks run. Omitted: as "
        "ranks_per_node requires, else one.",
    )
    ranks_per_node: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=256,
        description="Ranks on each node. Omitted: ranks divided by nodes.",
    )
    gpu: RankGpu | None = Field(
        None,
        description="GPUs of each rank: a type (one such GPU), a number, or type:number. Omitted: "
        "none.",
        examples=["a100"],
    )
    cpu: int | None = Field(
        None, strict=True, ge=1, le=4_096, description="CPUs of each rank. Omitted: one."
    )
    memory: Annotated[
        MemoryBytes | None, Field(description="Memory of each rank, such as 16G. Omitted: 2G.")
    ] = None
    max_duration: Annotated[Seconds | None, Field(description="Time limit, such as 2h.")] = None
    idle: Annotated[
        Seconds | Literal["off"],
        BeforeValidator(convert_off),
        Field(
            description="Time without work after which the ranks are released; off: never.",
            examples=["15m", "off"],
            json_schema_extra={"default": "15m"},
        ),
    ] = DEFAULT_IDLE_S
    slurm: SlurmOptions = Field(
        default_factory=SlurmOptions,
        description="Options of Slurm, such as partition; the session's are not used.",
    )
    python: str | None = Field(
        None,
        pattern=r"^/[^\x00-\x1f\x7f]*$",
        max_length=4_096,
        description="Absolute path of the Python interpreter of the ranks; omitted: that of the "
        "session's server.",
    )
