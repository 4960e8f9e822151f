"""Ports that every scheduler adapter receives in addition to the settings."""

from __future__ import annotations

from dataclasses import dataclass

from aitne.core.ports.command import Command
from aitne.core.ports.job_files import JobFiles


@dataclass(frozen=True, slots=True)
class Tools:
    """The two ports that a scheduler adapter needs to act as a job's Unix account. They are
    implemented in the platform's own process or in the broker.
    """

    command: Command
    files: JobFiles
