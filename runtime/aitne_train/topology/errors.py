"""Error of topologies that cannot be read or used."""

from __future__ import annotations


class TopologyError(ValueError):
    """Error: a topology cannot be read, or does not fit what is requested. The message is for the
    user: file, line, problem, remedy.

    Args:
        problem: what is wrong, without a full stop.
        remedy: what to do, as a sentence.
        file: name of the file or command; None: the problem is not in one.
        line: number of the line, from 1; None: the whole file.
    """

    def __init__(
        self, problem: str, remedy: str, *, file: str | None = None, line: int | None = None
    ) -> None:
        self.problem = problem
        self.remedy = remedy
        self.file = file
        self.line = line
        where = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(f"{where}{problem}. {remedy}")


class NoSwitchesError(TopologyError):
    """Error: a topology describes no switches and no blocks, such as Slurm's ``flat``."""
