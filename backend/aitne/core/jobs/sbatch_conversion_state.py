"""State of a conversion of a batch script to a job file, with the notes on what differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from aitne.core.jobs.sbatch_option_parser import SbatchOption
from aitne.core.models.base import Frozen, deprecated_copy

MOST_NOTES = 500
"""Maximum number of notes, because a script of mistakes alone could cause a hundred thousand."""


class Note(Frozen):
    """Note on an option of the script that the job file does not contain, or contains with another
    meaning.
    """

    line: int
    """Line number in the script, from 1; 0: an option of the command line or environment of sbatch."""
    option: str
    """Name of the option."""
    message: str
    changes_execution: bool = True
    """Whether the job would run differently than with sbatch."""
    needs_permission: bool = False
    """Whether the job is refused unless the site permits the option (``slurm.extra``)."""
    serious: ClassVar = deprecated_copy("changes_execution", bool)


@dataclass
class SbatchConversion:
    """State of a conversion: fields, options and notes collected so far."""

    folder: str | None = None
    """Folder in which sbatch would be called; None: unknown."""
    permitted: frozenset[str] = frozenset()
    """Options that the site permits in ``slurm.extra``, such as ``--hint``."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the job file outside the sections below."""
    slurm: dict[str, Any] = field(default_factory=dict)
    """Fields of the section ``slurm``."""
    placement: dict[str, Any] = field(default_factory=dict)
    """Fields of the section ``placement``."""
    extra: dict[str, str] = field(default_factory=dict)
    """Values of the options that are copied to ``slurm.extra``, by name."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables of the job."""
    amounts: dict[str, SbatchOption] = field(default_factory=dict)
    """Options about nodes, tasks, CPUs, memory and GPUs by name; they are converted together
    because they depend on each other.
    """
    notes: list[Note] = field(default_factory=list)
    """Notes on options that were omitted or changed."""
    logs: dict[str, SbatchOption] = field(default_factory=dict)
    """Options about files for stdout and stderr, by name."""
    lines: dict[str, int] = field(default_factory=dict)
    """Line of the script from which each field of the job file comes."""

    def add_note(
        self,
        line: int,
        option: str,
        message: str,
        *,
        changes_execution: bool = True,
        needs_permission: bool = False,
    ) -> None:
        """Add a note on what was not converted; beyond ``MOST_NOTES`` notes are dropped."""
        if len(self.notes) >= MOST_NOTES:
            return
        self.notes.append(
            Note(
                line=line,
                option=option[:200],
                message=message[:1_000],
                changes_execution=changes_execution,
                needs_permission=needs_permission,
            )
        )
