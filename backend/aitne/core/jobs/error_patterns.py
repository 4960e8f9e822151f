"""Patterns of error messages in logs, with an explanation for each.

Has no side effects. Lines have a maximum length, which bounds the time of a search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aitne.core.jobs.log_lines import LogLine

NEAR_END = 15
"""Number of non-empty lines at the end of a log in which a line of ``_MESSAGES`` counts as the
error.
"""
_MOST_NAME = 120
"""Maximum number of characters of a name that a sentence quotes from a log."""


class FailureCause(StrEnum):
    """Kind of cause of a job's failure."""

    OUT_OF_MEMORY = "out_of_memory"
    GPU_OUT_OF_MEMORY = "gpu_out_of_memory"
    TIME_LIMIT = "time_limit"
    QUOTA_EXCEEDED = "quota_exceeded"
    DISK_FULL = "disk_full"
    ENVIRONMENT_CHANGED = "environment_changed"
    MODULE_NOT_FOUND = "module_not_found"
    IMPORT_FAILED = "import_failed"
    LIBRARY_NOT_FOUND = "library_not_found"
    FILE_NOT_FOUND = "file_not_found"
    PERMISSION_DENIED = "permission_denied"
    COMMAND_NOT_FOUND = "command_not_found"
    NOT_EXECUTABLE = "not_executable"
    KILLED = "killed"
    """The program was ended by SIGKILL."""
    CRASHED = "crashed"
    """The program was ended by SIGSEGV."""
    TERMINATED = "terminated"
    """The program was ended by SIGTERM."""
    SIGNAL = "signal"
    """The program was ended by another signal."""
    ERROR = "error"
    """The program ended with a non-zero exit code of its own."""
    OTHER = "other"
    """The platform, the scheduler or a node ended the program; the text contains the reason."""


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Error in a log: its cause, an explaining sentence (None: there is none) and its line."""

    cause: FailureCause
    text: str | None
    line: LogLine


@dataclass(frozen=True, slots=True)
class _Pattern:
    cause: FailureCause
    pattern: re.Pattern[str]
    text: str | None = None
    """Sentence that explains the error; ``{name}`` is replaced by the group of that name. None: the
    line explains nothing.
    """


_C = FailureCause
_EXCEPTION = r"^(?:[A-Za-z_][\w.]*\.)?"
"""Pattern of the beginning of the last line of a Python traceback: the module of the exception."""
_NO_FILE = "{name} does not exist: check the path and the working directory."
_NO_ACCESS = "Access to {name} was denied: check its permissions."
_NO_QUOTA = "The disk quota is used up: delete files, or ask for a larger quota."
_NO_SPACE = "No space is left on a disk: delete files, or write to another disk."
_NO_GPU_MEMORY = "A GPU ran out of memory: reduce the batch size, or request GPUs with more memory."
_CHANGED = r"^The environment of sessions was changed: (?P<name>.+)$"
_REPAIR = (
    "A job has changed the environment of sessions ({name}): `aitne down` and `aitne up` repair it; "
    "packages of your own belong in a virtual environment that `environment.venv` names."
)
_NO_COMMAND = (
    "The command {name} was not found: check its name, or load the module or environment that has "
    "it."
)

_EXCEPTIONS = (
    _Pattern(
        _C.GPU_OUT_OF_MEMORY,
        re.compile(
            r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError: (?:CUDA|HIP|XPU)\b"
            r"|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: .{0,80}\b(?:OOM|[Oo]ut of memory)"
        ),
        _NO_GPU_MEMORY,
    ),
    _Pattern(
        _C.QUOTA_EXCEEDED,
        re.compile(_EXCEPTION + r"OSError: \[Errno 122\]"),
        _NO_QUOTA,
    ),
    _Pattern(_C.DISK_FULL, re.compile(_EXCEPTION + r"OSError: \[Errno 28\]"), _NO_SPACE),
    _Pattern(
        _C.OUT_OF_MEMORY,
        re.compile(
            _EXCEPTION + r"(?:\w*MemoryError\b|OSError: \[Errno 12\])"
            r"|what\(\):\s+std::bad_alloc|\bDefaultCPUAllocator: (?:can't|not enough)"
        ),
    ),
    _Pattern(
        _C.OUT_OF_MEMORY,
        re.compile(r"\boom[-_]kill|\bOOM Killed\b|Out [Oo]f [Mm]emory: Killed process"),
    ),
    _Pattern(_C.ENVIRONMENT_CHANGED, re.compile(_CHANGED), _REPAIR),
    _Pattern(
        _C.MODULE_NOT_FOUND,
        re.compile(r"^ModuleNotFoundError: No module named '?(?P<name>[\w.]+)'?"),
        "The Python module {name} is not installed in the job's environment: choose one that has it with "
        "`--venv` or `--image`, or with `python=` for a function.",
    ),
    _Pattern(
        _C.LIBRARY_NOT_FOUND,
        re.compile(
            r"(?P<name>[\w.+-]+\.so[\w.]*): cannot open shared object file: No such file or directory"
        ),
        "The shared library {name} was not found: load the module or environment that has it.",
    ),
    _Pattern(
        _C.IMPORT_FAILED,
        re.compile(r"^ImportError: "),
        "A Python import failed: the versions of the installed packages may not match.",
    ),
    _Pattern(
        _C.FILE_NOT_FOUND,
        re.compile(
            r"^FileNotFoundError: \[Errno 2\] [^:]{1,80}: (?P<quote>['\"])(?P<name>[^'\"]+)(?P=quote)"
        ),
        _NO_FILE,
    ),
    _Pattern(
        _C.PERMISSION_DENIED,
        re.compile(
            r"^PermissionError: \[Errno 13\] [^:]{1,80}: (?P<quote>['\"])(?P<name>[^'\"]+)(?P=quote)"
        ),
        _NO_ACCESS,
    ),
    _Pattern(
        _C.ERROR,
        re.compile(_EXCEPTION + r"[A-Z]\w*(?:Error|Exception|Interrupt|Failure)(?::|$)"),
    ),
    _Pattern(
        _C.ERROR,
        re.compile(r"^terminate called after throwing|^Fatal Python error|^thread '.*' panicked"),
    ),
)
"""Patterns of lines that occur only in case of a failure, wherever they are in the log; the first
match is used.
"""

_MESSAGES = (
    _Pattern(_C.QUOTA_EXCEEDED, re.compile(r"\bDisk quota exceeded\b"), _NO_QUOTA),
    _Pattern(_C.DISK_FULL, re.compile(r"\bNo space left on device\b"), _NO_SPACE),
    _Pattern(
        _C.OUT_OF_MEMORY, re.compile(r"\bCannot allocate memory\b|\bvirtual memory exhausted\b")
    ),
    _Pattern(
        _C.COMMAND_NOT_FOUND,
        re.compile(r"(?:^|[: ])(?P<name>[\w./+@-]+): (?:command )?not found$"),
        _NO_COMMAND,
    ),
    _Pattern(
        _C.FILE_NOT_FOUND,
        re.compile(r"can't open file '(?P<name>[^']+)': \[Errno 2\]"),
        _NO_FILE,
    ),
    _Pattern(
        _C.FILE_NOT_FOUND,
        re.compile(r"(?:^|[: ])['‘]?(?P<name>[^\s:'‘’]+)['’]?: No such file or directory$"),
        _NO_FILE,
    ),
    _Pattern(
        _C.PERMISSION_DENIED,
        re.compile(r"(?:^|[: ])['‘]?(?P<name>[^\s:'‘’]+)['’]?: Permission denied$"),
        _NO_ACCESS,
    ),
    _Pattern(_C.ERROR, re.compile(r"\bSegmentation fault\b|\bcore dumped\b|\bBus error\b")),
    _Pattern(_C.ERROR, re.compile(r"^Killed$|\bKilled\s+\S")),
    _Pattern(
        _C.ERROR, re.compile(r"(?:^|[\s\[(|])(?:ERROR|FATAL|CRITICAL)\b(?!\s*[=:]\s*[\d.]+$)")
    ),
    # "error: 0.12" is a measurement.
    _Pattern(_C.ERROR, re.compile(r"(?:^|\s)(?:fatal )?[Ee]rror:\s*(?![\d.eE+-]+\b)\S")),
)
"""Patterns of lines that programs also write without failing; they count only near the end of the
log.
"""

_IGNORED = re.compile(
    r"^aitne: |^(?:srun|slurmstepd|sbatch|prterun|mpirun|aitne-run): "
    r"|\b(?:CalledProcessError|ChildFailedError|SystemExit|BrokenPipeError)\b"
)
"""Pattern of lines in which a launcher reports that its program failed."""
_RANK = re.compile(r"^(?:\[(?:rank)?\d{1,6}\]:? ?|  \| |\d{1,6}: )")
"""Pattern of the prefix that launchers write before each line of a rank."""


def find_error(lines: Sequence[LogLine]) -> ErrorLine | None:
    """Return the error in the last lines of a log; None if no line matches a pattern.

    The last matching line is used, because programs may also report errors that they handle.
    """
    near = 0
    likely: ErrorLine | None = None
    for line in reversed(lines):
        text = _RANK.sub("", line.text)
        if not text:
            continue
        near += 1
        found = _match_line(_EXCEPTIONS, text, line)
        if found is not None and (found.cause is not _C.ERROR or not _IGNORED.search(text)):
            return found
        if likely is None and near <= NEAR_END and not _IGNORED.search(text):
            likely = _match_line(_MESSAGES, text, line)
            if likely is not None and likely.cause is _C.COMMAND_NOT_FOUND:
                return likely  # whatever was printed before it
    return likely


def _match_line(patterns: Sequence[_Pattern], text: str, line: LogLine) -> ErrorLine | None:
    for entry in patterns:
        match = entry.pattern.search(text)
        if match is not None:
            name = match.groupdict().get("name") or ""
            short = name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"
            sentence = None if entry.text is None else entry.text.replace("{name}", short)
            return ErrorLine(entry.cause, sentence, line)
    return None
