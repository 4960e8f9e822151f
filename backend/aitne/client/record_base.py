"""Base classes of the records, which are the platform's answers as typed objects.

The records themselves are generated from the OpenAPI document (``records``, ``admin_records``,
``project_records``).

A field that this version does not know is only in ``raw``; one that an older platform does not send
is None. These are plain classes, not pydantic models, because building pydantic's schemas takes
longer than everything else that a short command does.
"""

from __future__ import annotations

from datetime import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar

TERMINAL = frozenset(
    {
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMED_OUT",
        "OUT_OF_MEMORY",
        "NODE_FAILED",
        "PREEMPTED",
        "LOST",
    }
)
"""Names of the states in which a job has ended, as in ``core.jobs.states.TERMINAL`` (a test
compares them), which is not imported here to save time."""

LIVE = (
    *("PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED", "STARTING", "RUNNING"),
    *("READY", "SUSPENDED", "COMPLETING", "UNKNOWN"),
)
"""Names of all other states, in which a job has not ended."""


class Record:
    """Base class of typed JSON objects. Each annotated field gets the value of that name in the
    JSON object: times become aware datetimes, and a missing list is empty.

    Keyword arguments of a subclass declare the fields that are records themselves, with their
    class.
    """

    _nested: ClassVar[Mapping[str, type[Record]]] = {}
    _fields: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **nested: type[Record]) -> None:
        cls._nested = nested
        class_fields = {n: str(kind) for n, kind in cls.__annotations__.items() if n[0] != "_"}
        cls._fields = {**cls._fields, **class_fields}

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)
        for name, kind in self._fields.items():
            setattr(self, name, self._convert_field(name, kind, raw.get(name)))

    def _convert_field(self, name: str, kind: str, value: Any) -> Any:
        if value is None:
            return [] if kind.startswith("list[") else {} if kind.startswith("dict[") else None
        if name in self._nested:
            made = self._nested[name]
            return [made(item) for item in value] if isinstance(value, list) else made(value)
        return datetime.fromisoformat(value) if kind.startswith("datetime") else value

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in ("id", "name", "state")
            if name in self._fields
        )
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]


class GpuBase(Record):
    """Base class of ``GpuRecord``. As text it is written as in a job file: ``a100:4``."""

    count: int
    type: str | None

    def __str__(self) -> str:
        return f"{self.type}:{self.count}" if self.type else str(self.count)


class JobBase(Record):
    """Base class of ``Job`` with properties that are derived from its fields."""

    id: str
    type: str
    state: str
    array: str | None
    array_job_id: str | None
    array_task_id: int | None

    @property
    def ended(self) -> bool:
        """Return whether the job is in a terminal state."""
        return self.state in TERMINAL

    @property
    def ok(self) -> bool:
        """Return whether the job has completed successfully."""
        return self.state == "COMPLETED"

    @property
    def is_session(self) -> bool:
        """Return whether the job is an interactive session."""
        return self.type == "session"

    @property
    def is_array(self) -> bool:
        """Return whether this is an array job, which does not run itself, but consists of tasks
        that do."""
        return self.array is not None and self.array_task_id is None

    @property
    def short_id(self) -> str:
        """Return the first characters of the job's id. For an array task these are the array job's,
        followed by the index, such as ``0008e66b_4``."""
        if self.array_job_id is None:
            return self.id[:8]
        return f"{self.array_job_id[:8]}_{self.array_task_id}"
