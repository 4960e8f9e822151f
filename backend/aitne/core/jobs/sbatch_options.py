"""The options of sbatch, and the field of a job file that each of them sets."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from aitne.core.cluster.partition_defaults import NO_LIMIT_S
from aitne.core.jobs.sbatch_conversion_state import SbatchConversion
from aitne.core.jobs.sbatch_option_names import (
    ALIASES,
    AMOUNTS,
    IGNORED,
    LEFT_OUT,
    LOGS,
    REFUSED,
    SITE,
)
from aitne.core.jobs.sbatch_option_parser import SbatchOption, refuse_option
from aitne.core.models.common_job_fields import EXTRA, MOST_EXTRA, SIGNAL, SlurmOptions
from aitne.core.models.job_file import is_reserved
from aitne.core.units import format_duration, parse_array, parse_duration
from aitne_train.topology.hostlist import expand_hostlist


def convert_option(conversion: SbatchConversion, option: SbatchOption) -> None:
    """Convert one option of the script, or add a note that states why it is not converted.

    Raises:
        ValueError: sbatch refuses the option, or the platform cannot run a job with it.
    """
    name = option.name
    if name in AMOUNTS:
        conversion.amounts[name] = option
    elif name in LOGS:
        conversion.logs[name] = option
    elif name in _TAKE:
        _TAKE[name](conversion, option)
    elif name in SITE:
        _convert_extra(conversion, option)
    elif name in REFUSED:
        refuse_option(option, REFUSED[name])
    elif name in LEFT_OUT:
        conversion.add_note(option.line, f"--{name}", f"was left out: {LEFT_OUT[name]}")
    else:
        conversion.add_note(
            option.line, f"--{name}", f"was left out: {IGNORED[name]}", changes_execution=False
        )


def count_named_nodes(conversion: SbatchConversion) -> None:
    """Set the number of nodes to that of the nodes that ``--nodelist`` names, as sbatch does without
    ``--nodes``.
    """
    with suppress(ValueError):
        count = len(expand_hostlist(conversion.placement.get("nodes", "")))
        if count > 1:
            option = SbatchOption(conversion.lines["placement.nodes"], "nodes", str(count))
            conversion.amounts.setdefault("nodes", option)


def find_log_paths(conversion: SbatchConversion) -> list[str]:
    """Return the paths to which sbatch would direct stdout and stderr, also by default; add a note
    if the job would behave differently.
    """
    default = "slurm-%A_%a.out" if "array" in conversion.fields else "slurm-%j.out"
    paths = [] if "output" in conversion.logs else [default]
    for name in ("output", "error"):
        option = conversion.logs.get(name)
        path = (option.value or "") if option is not None else ""
        if option is None or path in paths:
            continue
        if path == "/dev/null":
            message = "was left out: the platform keeps the log (`aitne logs`)"
            conversion.add_note(option.line, f"--{name}", message, changes_execution=False)
            continue
        if name == "error":
            conversion.add_note(
                option.line,
                "--error",
                "the file has the whole log: the platform keeps stdout and stderr in one file",
                changes_execution=False,
            )
        paths.append(path)
        conversion.lines.setdefault("log_files", option.line)
    mode = conversion.logs.get("open-mode")
    if mode is not None:
        appends = (mode.value or "").lower().startswith("a")
        message = "was left out: a file of `log_files` has the log of the last run only"
        conversion.add_note(mode.line, "--open-mode", message, changes_execution=appends)
    return paths


def _convert_extra(conversion: SbatchConversion, option: SbatchOption) -> None:
    text = f"--{option.name}" + ("" if option.value is None else f"={option.value}")
    if not re.fullmatch(EXTRA, text):
        conversion.add_note(
            option.line, f"--{option.name}", f"{option.value!r} is not a value of this option"
        )
        return
    conversion.extra.pop(option.name, None)
    if len(conversion.extra) >= MOST_EXTRA:
        conversion.add_note(
            option.line, f"--{option.name}", f"is beyond {MOST_EXTRA} options: left out"
        )
        return
    conversion.extra[option.name] = text
    conversion.lines["slurm.extra"] = option.line
    if f"--{option.name}" not in conversion.permitted:
        conversion.add_note(
            option.line,
            f"--{option.name}",
            "was kept in `slurm.extra`: the job is refused unless the site permits this option",
            needs_permission=True,
        )


def _make_plain_converter(target: str) -> Callable[[SbatchConversion, SbatchOption], None]:
    part, _, name = target.rpartition(".")

    def put(wish: SbatchConversion, option: SbatchOption) -> None:
        sections = {"": wish.fields, "slurm": wish.slurm, "placement": wish.placement}
        sections[part][name] = option.value or ""
        wish.lines[target] = option.line

    return put


def _convert_time(conversion: SbatchConversion, option: SbatchOption) -> None:
    seconds = NO_LIMIT_S if _is_unlimited(option) else _parse_seconds(option) or NO_LIMIT_S
    conversion.fields["max_duration"] = format_duration(seconds)
    conversion.lines["max_duration"] = option.line


def _is_unlimited(option: SbatchOption) -> bool:
    return (option.value or "").upper() in ("-1", "UNLIMITED", "INFINITE")


def _parse_seconds(option: SbatchOption) -> int:
    """Return the seconds of a time in sbatch's forms, which have no units; refuse other values."""
    text = option.value or ""
    if not re.fullmatch(r"[0-9:-]+", text):
        refuse_option(option, f"{text!r} is not a time, so sbatch refuses it")
    try:
        return parse_duration(text)
    except ValueError:
        refuse_option(option, f"{text!r} is not a time, so sbatch refuses it")


def _convert_array(conversion: SbatchConversion, option: SbatchOption) -> None:
    try:
        conversion.fields["array"] = str(parse_array(option.value or ""))
    except ValueError as error:
        refuse_option(option, str(error))
    conversion.lines["array"] = option.line


def _convert_chdir(conversion: SbatchConversion, option: SbatchOption) -> None:
    path = option.value or ""
    conversion.lines["workdir"] = option.line
    if path.startswith(("/", "~/")):
        conversion.fields["workdir"] = path
    elif conversion.folder is not None:
        conversion.fields["workdir"] = os.path.normpath(os.path.join(conversion.folder, path))
    else:
        conversion.add_note(
            option.line,
            "--chdir",
            f"{path!r} counts from where sbatch was called: write it in full",
        )


def _convert_exclusive(conversion: SbatchConversion, option: SbatchOption) -> None:
    if option.value:
        conversion.slurm.pop("exclusive", None)
        _convert_extra(conversion, option)
        return
    conversion.extra.pop("exclusive", None)
    conversion.slurm["exclusive"] = True
    conversion.lines["slurm.exclusive"] = option.line


def _convert_nice(conversion: SbatchConversion, option: SbatchOption) -> None:
    # Without a value sbatch takes 100.
    text = "100" if option.value is None else option.value
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        refuse_option(option, f"{text!r} is not a number, so sbatch refuses it")
    if text.startswith("-"):
        conversion.add_note(
            option.line, "--nice", f"{text!r}: only a number from 0 can be set by users"
        )
        return
    conversion.slurm["nice"] = int(text)
    conversion.lines["slurm.nice"] = option.line


def _convert_time_min(conversion: SbatchConversion, option: SbatchOption) -> None:
    if _is_unlimited(option):
        conversion.add_note(
            option.line, "--time-min", "was left out: a job's least time has an end"
        )
    elif seconds := _parse_seconds(option):
        conversion.slurm["time_min"] = format_duration(seconds)
        conversion.lines["slurm.time_min"] = option.line


def _make_requeue_converter(value: bool) -> Callable[[SbatchConversion, SbatchOption], None]:
    def put(wish: SbatchConversion, option: SbatchOption) -> None:
        wish.slurm["requeue"] = value
        wish.lines["slurm.requeue"] = option.line
        if option.value:
            wish.add_note(option.line, f"--{option.name}", f"{option.value!r} was left out")

    return put


_FROM_NOW = re.compile(
    r"now(?:\+([0-9]{1,9})(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?)?)?",
    re.IGNORECASE,
)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _convert_begin(conversion: SbatchConversion, option: SbatchOption) -> None:
    text = option.value or ""
    conversion.fields.pop("begin", None)
    if (match := _FROM_NOW.fullmatch(text)) is not None:
        seconds = int(match[1] or 0) * _SECONDS[(match[2] or "s")[0].lower()]
        if seconds:
            conversion.fields["begin"] = format_duration(seconds)
            conversion.lines["begin"] = option.line
        return
    conversion.add_note(
        option.line,
        "--begin",
        f"{text!r} has no time zone: write it into `begin`, such as 2026-01-31T20:00:00+01:00",
    )


def _convert_hold(conversion: SbatchConversion, option: SbatchOption) -> None:
    conversion.fields["hold"] = True
    conversion.lines["hold"] = option.line


def _convert_dependency(conversion: SbatchConversion, option: SbatchOption) -> None:
    conversion.fields.pop("singleton", None)
    conversion.env.pop("SLURM_JOB_DEPENDENCY", None)
    kinds = re.split(r"[,?]", option.value or "")
    if "singleton" in kinds:
        conversion.fields["singleton"] = True
        conversion.lines["singleton"] = option.line
        conversion.env["SLURM_JOB_DEPENDENCY"] = "singleton"
    if kinds != ["singleton"]:
        conversion.add_note(
            option.line,
            "--dependency",
            "was left out: `after`, `afterany`, `afternotok` and `aftercorr` take ids of jobs of "
            "the platform, not Slurm's numbers",
        )


_SIGNAL = re.compile(r"(?:([RB]+):)?([A-Za-z0-9]+)(?:@([0-9]+))?")


def _convert_signal(conversion: SbatchConversion, option: SbatchOption) -> None:
    match = _SIGNAL.fullmatch(option.value or "")
    receiver = "steps" if match is None or "B" not in (match[1] or "") else "B"
    text = match and f"{receiver}:{match[2].upper()}@{match[3] or 60}"
    if match is None or not text or not re.fullmatch(SIGNAL, text):
        refuse_option(option, f"{option.value!r} is not a signal and a time, so sbatch refuses it")
    conversion.slurm["signal"] = text
    conversion.lines["slurm.signal"] = option.line
    if "R" in (match[1] or ""):
        conversion.add_note(
            option.line, "--signal", "R: was left out: it lets jobs end for a reservation"
        )


def _convert_switches(conversion: SbatchConversion, option: SbatchOption) -> None:
    count, _, wait = (option.value or "").partition("@")
    seconds = _parse_seconds(option._replace(value=wait)) if wait else 0
    if not re.fullmatch(r"[1-9][0-9]{0,5}", count):
        refuse_option(option, f"{option.value!r} is not a number and a time, so sbatch refuses it")
    conversion.placement["compact"] = "prefer" if seconds else "require"
    conversion.placement.pop("wait", None)
    if seconds:
        conversion.placement["wait"] = format_duration(seconds)
    conversion.lines["placement.compact"] = conversion.lines["placement.wait"] = option.line
    if count != "1":
        conversion.add_note(
            option.line,
            "--switches",
            f"{count} was left out: `placement.compact` waits for the fewest switches that can hold the job",
        )


def _convert_distribution(conversion: SbatchConversion, option: SbatchOption) -> None:
    value = option.value or ""
    if value == "block":
        conversion.placement["order"] = "given"
        conversion.lines["placement.order"] = option.line
    elif value == "arbitrary":
        conversion.add_note(
            option.line,
            "--distribution",
            "was left out: `srun --distribution=arbitrary` in `commands` takes the order of "
            "`placement.order`",
        )
    else:
        _convert_extra(conversion, option)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def _convert_export(conversion: SbatchConversion, option: SbatchOption) -> None:
    text = option.value or ""
    if text.upper() != "ALL":
        # srun takes it as its own --export, unless the script unsets it.
        conversion.env["SLURM_EXPORT_ENV"] = text
        conversion.lines["env"] = option.line
    if text.upper() not in ("ALL", "NIL"):
        conversion.env["SLURM_GET_USER_ENV"] = "1"
    for part in (option.value or "").split(","):
        name, equals, value = part.strip().partition("=")
        if equals and is_reserved(name):
            conversion.add_note(
                option.line, "--export", f"{name} was left out: it belongs to the platform"
            )
        elif equals and _NAME.fullmatch(name):
            conversion.env[name] = value
            conversion.lines["env"] = option.line
        elif name == "ALL" or (name and name not in ("NONE", "NIL")):
            which = "the whole environment" if name == "ALL" else name
            conversion.add_note(
                option.line,
                "--export",
                f"{which} of where sbatch was called is not known here: list in `env` "
                "what the job needs",
            )


_TAKE: Mapping[str, Callable[[SbatchConversion, SbatchOption], None]] = {
    **{
        name.replace("_", "-"): _make_plain_converter(f"slurm.{name}")
        for name in SlurmOptions.model_fields
        if name != "extra"
    },
    "job-name": _make_plain_converter("name"),
    "exclusive": _convert_exclusive,
    "nice": _convert_nice,
    "time-min": _convert_time_min,
    "requeue": _make_requeue_converter(True),
    "no-requeue": _make_requeue_converter(False),
    "signal": _convert_signal,
    "time": _convert_time,
    "array": _convert_array,
    "begin": _convert_begin,
    "dependency": _convert_dependency,
    "hold": _convert_hold,
    "chdir": _convert_chdir,
    "export": _convert_export,
    "nodelist": _make_plain_converter("placement.nodes"),
    "exclude": _make_plain_converter("placement.exclude"),
    "switches": _convert_switches,
    "distribution": _convert_distribution,
}
KNOWN = frozenset({*_TAKE, *AMOUNTS, *LOGS, *SITE, *LEFT_OUT, *IGNORED, *REFUSED, *ALIASES})
"""The options of sbatch in Slurm 22.05 to 26.05."""
