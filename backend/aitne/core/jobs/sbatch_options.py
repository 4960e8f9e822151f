"""The options of sbatch, and the field of a job file that each of them sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aitne.core.models.base import Frozen
from aitne.core.models.job_options import SIGNAL, SlurmOptions
from aitne.core.units import format_duration, parse_array, parse_duration

MOST_NOTES = 500
"""Limit of the notes: a script with only mistakes could have a hundred thousand."""


class Note(Frozen):
    """Note on an option of the script that the job file does not have, or has differently."""

    line: int
    """The line in the script, from 1."""
    option: str
    """The option it is about."""
    message: str
    serious: bool = True
    """Whether the job would run otherwise than by sbatch."""


class SbatchOption(NamedTuple):
    """An option as it was written. ``value`` is None if it was written without a value."""

    line: int
    name: str
    value: str | None


@dataclass
class SbatchConversion:
    """State of a conversion: fields, options and notes collected so far."""

    fields: dict[str, Any] = field(default_factory=dict)
    slurm: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    amounts: dict[str, SbatchOption] = field(default_factory=dict)
    """The options about nodes, tasks, CPUs, memory and GPUs: they have a meaning only together."""
    notes: list[Note] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    """Line of the script from which each field of the job file comes."""

    def note(self, line: int, option: str, message: str, *, serious: bool = True) -> None:
        """Add a note on what was not converted; beyond ``MOST_NOTES`` notes are dropped."""
        if len(self.notes) >= MOST_NOTES:
            return
        self.notes.append(
            Note(line=line, option=option[:200], message=message[:1_000], serious=serious)
        )


SHORT = {
    "A": "account",
    "a": "array",
    "b": "begin",
    "B": "extra-node-info",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "I": "immediate",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
    "h": "help",
    "u": "usage",
    "V": "version",
}

ALIASES = {"tasks-per-node": "ntasks-per-node"}
"""Other names of long options."""

_LOG = "the platform keeps the log of every job and shows it; redirect in `commands` for a file of your own"
_MAIL = "choose your notifications under Account -> Notifications"
_START = "the platform does not start jobs at a given time"
_WHERE = "nodes are chosen by `slurm.constraint` or by the scheduler"
_SITE = "add it to `slurm.extra` if your site allows that"
_NO_MATTER = "has no effect here"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("output", "error", "open-mode"), _LOG),
    "input": "a job's standard input is empty; redirect in `commands`",
    **dict.fromkeys(("mail-type", "mail-user"), _MAIL),
    **dict.fromkeys(("begin", "deadline"), _START),
    **dict.fromkeys(("nodelist", "exclude", "nodefile"), _WHERE),
    "dependency": "`after` takes ids of jobs of the platform, not Slurm's numbers",
    "clusters": "a platform submits to one cluster",
    "wrap": "is for the command line; write the command into `commands`",
    "hold": "a job is not held back; submit it when it may run",
    "time-min": "a job has one time limit",
    "uid": "a job runs as the account of the user who submits it",
    "gid": "a job runs as the account of the user who submits it",
    "get-user-env": "a job starts with a clean environment; list in `environment` what it loads",
    "export-file": "a job starts with a clean environment; list its variables in `env`",
    "container": "name an image: `image`",
    "ntasks-per-gpu": "set the number of ranks: `distributed.ranks_per_node`",
    **dict.fromkeys(
        (
            *("acctg-freq", "batch", "bb", "bbf", "burst-buffer", "comment", "contiguous"),
            *("core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "delay-boot"),
            *("distribution", "exclusive-topo", "extra", "extra-node-info", "gpu-bind", "gpu-freq"),
            *("gres-flags", "hint", "kill-on-invalid-dep", "licenses", "mcs-label", "mem-bind"),
            *("mincpus", "network", "nice", "no-kill", "ntasks-per-core", "ntasks-per-socket"),
            *("overcommit", "oversubscribe", "power", "prefer", "priority", "profile", "propagate"),
            *("reboot", "resv-ports", "segment", "sockets-per-node", "spread-job", "switches"),
            *(
                "thread-spec",
                "threads-per-core",
                "tmp",
                "tres-bind",
                "tres-per-task",
                "use-min-nodes",
            ),
            *("wckey", "cpus-per-node", "gpus-per-socket", "mem-per-socket", "immediate"),
        ),
        _SITE,
    ),
}
IGNORED = frozenset(
    {"quiet", "verbose", "wait", "parsable", "test-only", "help", "usage", "version", "bell"}
    | {"no-bell", "ignore-pbs", "wait-all-nodes"}
)
AMOUNTS = frozenset(
    {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu"}
    | {"gpus", "gpus-per-node", "gpus-per-task", "gres"}
)
_FLAGS = frozenset(
    {
        "requeue",
        "no-requeue",
        "hold",
        "no-kill",
        "overcommit",
        "contiguous",
        "reboot",
        "oversubscribe",
    }
    | {
        "spread-job",
        "use-min-nodes",
        "exclusive",
        "get-user-env",
        "immediate",
        "resv-ports",
        "nice",
    }
)


def take(wish: SbatchConversion, option: SbatchOption) -> None:
    """Take over one option of the script, or note why it is left out."""
    name = option.name
    if name in AMOUNTS:
        wish.amounts[name] = option
    elif name in _TAKE:
        _TAKE[name](wish, option)
    elif name in LEFT_OUT:
        wish.note(option.line, f"--{name}", f"was left out: {LEFT_OUT[name]}")
    else:
        wish.note(option.line, f"--{name}", _NO_MATTER, serious=False)


def _plain(target: str) -> Callable[[SbatchConversion, SbatchOption], None]:
    part, _, name = target.rpartition(".")

    def put(wish: SbatchConversion, option: SbatchOption) -> None:
        (wish.slurm if part else wish.fields)[name] = option.value or ""
        wish.lines[target] = option.line

    return put


def _time(wish: SbatchConversion, option: SbatchOption) -> None:
    text = option.value or ""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0
    wish.fields.pop("max_duration", None)
    if not seconds:
        limit = "no limit" if text.upper() in ("0", "UNLIMITED", "INFINITE") else repr(text)
        wish.note(option.line, "--time", f"{limit} is not a time limit that a job can have")
        return
    wish.fields["max_duration"] = format_duration(seconds)
    wish.lines["max_duration"] = option.line


def _array(wish: SbatchConversion, option: SbatchOption) -> None:
    try:
        wish.fields["array"] = str(parse_array(option.value or ""))
        wish.lines["array"] = option.line
    except ValueError as error:
        wish.note(option.line, "--array", str(error))


def _chdir(wish: SbatchConversion, option: SbatchOption) -> None:
    path = option.value or ""
    wish.lines["workdir"] = option.line
    if path.startswith(("/", "~/")):
        wish.fields["workdir"] = path
    else:
        wish.note(
            option.line,
            "--chdir",
            f"{path!r} counts from where sbatch was called: write it in full",
        )


def _exclusive(wish: SbatchConversion, option: SbatchOption) -> None:
    wish.slurm["exclusive"] = True
    wish.lines["slurm.exclusive"] = option.line
    if option.value:
        wish.note(
            option.line, f"--exclusive={option.value}", "became whole nodes without other jobs"
        )


def _requeue(value: bool) -> Callable[[SbatchConversion, SbatchOption], None]:
    def put(wish: SbatchConversion, option: SbatchOption) -> None:
        wish.slurm["requeue"] = value
        wish.lines["slurm.requeue"] = option.line

    return put


_SIGNAL = re.compile(r"(?:([RB]+):)?([A-Za-z0-9]+)(?:@([0-9]+))?")


def _signal(wish: SbatchConversion, option: SbatchOption) -> None:
    match = _SIGNAL.fullmatch(option.value or "")
    text = match and f"{match[2].upper()}@{match[3] or 60}"
    if match is None or not text or not re.fullmatch(SIGNAL, text):
        wish.note(option.line, "--signal", f"{option.value!r} is not a signal and a time")
        return
    wish.slurm["signal"] = text
    wish.lines["slurm.signal"] = option.line
    if match[1]:
        wish.note(
            option.line,
            "--signal",
            f"{match[1]}: was left out: the platform decides which processes get it",
        )


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def _export(wish: SbatchConversion, option: SbatchOption) -> None:
    for part in (option.value or "").split(","):
        name, equals, value = part.strip().partition("=")
        if equals and _NAME.fullmatch(name):
            wish.env[name] = value
            wish.lines["env"] = option.line
        elif name == "ALL" or (name and name not in ("NONE", "NIL")):
            which = "the whole environment" if name == "ALL" else name
            wish.note(
                option.line,
                "--export",
                f"{which} of where sbatch was called is not known here: list in `env` "
                "what the job needs",
            )


_TAKE: Mapping[str, Callable[[SbatchConversion, SbatchOption], None]] = {
    **{
        name.replace("_", "-"): _plain(f"slurm.{name}")
        for name in SlurmOptions.model_fields
        if name != "extra"
    },
    "job-name": _plain("name"),
    "exclusive": _exclusive,
    "requeue": _requeue(True),
    "no-requeue": _requeue(False),
    "signal": _signal,
    "time": _time,
    "array": _array,
    "chdir": _chdir,
    "export": _export,
}
KNOWN = frozenset({*_TAKE, *AMOUNTS, *LEFT_OUT, *IGNORED})
NEEDS_VALUE = KNOWN - IGNORED - _FLAGS
