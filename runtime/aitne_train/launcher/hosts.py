"""Parsers for the number of ranks on each host, in host lists, host files and Slurm's variables."""

from __future__ import annotations

import re

from aitne_train.launcher.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

VARIABLE = "AITNE_HOSTFILE"
"""Variable with the path of the host file of a run or job, whose hosts are in the order of the
ranks."""
_COUNT = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_MOST_DIGITS = 10
MOST_RANKS = 1_000_000
"""Maximum number of ranks; a larger number is treated as a typing error."""


class Host:
    """A node with the number of ranks that may run on it."""

    __slots__ = ("name", "ranks")

    def __init__(self, name: str, ranks: int) -> None:
        self.name = name
        self.ranks = ranks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Host) and (self.name, self.ranks) == (other.name, other.ranks)

    def __hash__(self) -> int:
        return hash((self.name, self.ranks))

    def __repr__(self) -> str:
        return f"Host({self.name!r}, {self.ranks})"


def parse_number(text: str | None) -> int | None:
    """Return the decimal integer in the value of an environment variable; None if it is missing,
    invalid or has too many digits.
    """
    fits = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if text is not None and fits else None


def parse_task_counts(text: str) -> list[int]:
    """Return the number of tasks of each node in Slurm's notation: ``2(x3),1`` is ``[2, 2, 2, 1]``.

    Raises:
        LaunchError: the text is not such a list.
    """
    tasks: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part.strip())
        times = int(match.group(2) or 1) if match else 0
        if not match or not 0 < times <= MOST_RANKS or int(match.group(1)) > MOST_RANKS:
            raise LaunchError(f"{text!r} is not a list of tasks per node such as 2(x3),1")
        tasks += [int(match.group(1))] * times
    return tasks


def parse_hosts(text: str) -> list[Host]:
    """Parse a list such as ``a:2,b:2``; a host without a number takes one rank.

    Raises:
        LaunchError: the list cannot be parsed, or names a host twice.
    """
    return _check_hosts([_parse_host(part.strip(), ":", text) for part in text.split(",")])


def parse_hostfile(text: str) -> list[Host]:
    """Parse the text of a host file, with lines ``a slots=2``, as in Open MPI and Horovod, or
    ``a:2``; ``#`` begins a comment.

    Raises:
        LaunchError: a line cannot be read, or the file names no host or one host twice.
    """
    entries = []
    for place, line in enumerate(text.splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        source = f"line {place}, {line.strip()!r},"
        if len(words) == 1:
            entries.append(_parse_host(words[0], ":", source))
        else:
            slots = [word for word in words[1:] if word.startswith("slots=")]
            if len(slots) != 1:
                raise LaunchError(f"{source} is not a host: write `name slots=2` or `name:2`")
            entries.append(_parse_host(words[0] + slots[0][len("slots") :], "=", source))
    if not entries:
        raise LaunchError("the host file names no host: write a line `name slots=2` for each")
    return _check_hosts(entries)


def format_hostfile(names: Sequence[str], ranks: Sequence[int]) -> str:
    """Return the text of a host file with these hosts and the number of ranks on each."""
    return "".join(f"{name} slots={count}\n" for name, count in zip(names, ranks))  # noqa: B905 (3.9)


def spread_ranks(available: Sequence[Host], size: int | None) -> list[Host]:
    """Return the hosts on which ``size`` ranks run, filled in the given order, with the number of
    ranks on each; None: all ranks of all hosts.

    Raises:
        LaunchError: all hosts together have fewer than ``size`` places.
    """
    room = sum(host.ranks for host in available)
    if size is None:
        return list(available)
    if size > room:
        raise LaunchError(
            f"{size} ranks are requested, but the hosts take {room}: give more hosts, or more ranks to each"
        )
    taken: list[Host] = []
    for host in available:
        ranks = min(host.ranks, size)
        if ranks:
            taken.append(Host(host.name, ranks))
        size -= ranks
    return taken


def _parse_host(text: str, mark: str, source: str) -> Host:
    name, marked, count = text.partition(mark)
    ranks = parse_number(count) or 0
    if not _NAME.fullmatch(name) or (marked and not 0 < ranks <= MOST_RANKS):
        raise LaunchError(f"{source} is not a list of hosts such as a:2,b:2")
    return Host(name, ranks if marked else 1)


def _check_hosts(entries: list[Host]) -> list[Host]:
    names = [host.name for host in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LaunchError(
            f"{', '.join(twice)} is named twice: give each host once, with all its ranks"
        )
    return entries
