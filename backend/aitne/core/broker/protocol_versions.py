"""Versions of the protocol between the platform and the broker, and what each of them added.

Platform and broker are updated one after the other, so each side speaks a range of versions. The
platform names its range in the first line, ``Hello``; the broker chooses the newest version that
both speak and names it in ``Welcome``. A broker accepts every request of an older version. The
platform sends an older broker only what that broker knows: see ``downgrade_arguments``.

Version 1 (release 0.1.0) had no range in ``Hello``, and its brokers refuse unknown fields there.
The platform therefore greets such a broker a second time, with version 1 alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from aitne.core.errors import NotSupported, SchedulerRejected
from aitne.core.models.base import Frozen

PROTOCOL = 2
"""Newest version that this release speaks. It is increased when an older broker lacks a verb, or
would ignore or refuse a part of a request.
"""
OLDEST_PROTOCOL = 1
"""Oldest version that this release speaks: that of the previous minor release."""
WITHOUT_RANGE = 1
"""Newest version whose brokers refuse a range in ``Hello``."""

VERBS_SINCE: Mapping[str, int] = dict.fromkeys(
    (
        *("changed", "hold", "release", "throttle", "hold_limits", "tidy", "remove"),
        "read_file",
        *("look_at_file", "list_folder", "read_part"),
        *("topology", "accounting_energy"),
        *("outside_list", "outside_ended", "outside_act", "outside_log"),
    ),
    2,
)
"""Version that added each verb; verbs of version 1 are not listed."""
_SUBMISSION_1: Mapping[str, Any] = {
    "request": {
        **dict.fromkeys(("account", "after", "array", "attempt", "files", "job_dir", "job_id")),
        **dict.fromkeys(("max_requeues", "name", "owner", "project", "script", "session")),
        "time_limit_s": None,
        "resources": {
            **dict.fromkeys(("cpu", "gres", "memory_bytes", "nodes")),
            "gpu": dict.fromkeys(("count", "type")),
        },
        "slurm": {
            **dict.fromkeys(("account", "constraint", "exclusive", "extra", "partition", "qos")),
            **dict.fromkeys(("requeue", "reservation", "signal")),
        },
    }
}
KNOWN_FIELDS: Mapping[int, Mapping[str, Mapping[str, Any]]] = {
    1: {"submit": _SUBMISSION_1, "forecast": _SUBMISSION_1}
}
"""For each version older than ``PROTOCOL``, the fields of those verbs to which later versions added
some: by name, with the fields of a section or None. What a list lacks is newer, so it names no field
that is added to a model. Whoever increases ``PROTOCOL`` adds the fields of the version before.
"""
LEFT_TO_SCHEDULER = (("request", "resources", "memory_request"), ("request", "default_time_limit"))
"""Fields of a submission that say which amounts the scheduler decides. An older broker requests the
amounts that are expected.
"""
DISPLAYED = frozenset({("request", "command")})
"""Fields without which the job is the same, so that an older broker does not get them."""


class Hello(Frozen):
    """First line that the platform sends after connecting. Unknown fields are ignored, so that
    later releases can add some.
    """

    protocol: int = Field(ge=1, strict=True)
    """Newest version that the platform speaks."""
    oldest: int | None = Field(None, ge=1, strict=True)
    """Oldest version that the platform speaks; None: only ``protocol``."""
    release: str = Field(max_length=40)


class Welcome(Frozen):
    """First line that the broker sends, as answer to ``Hello``."""

    protocol: int
    """Version that both sides speak on this connection."""
    release: str
    scheduler: str
    settle_s: float


def make_hellos(release: str) -> tuple[Hello, ...]:
    """Return the lines with which a platform of ``release`` greets a broker, each on a connection
    of its own, until the broker does not answer with ``InvalidInput``.
    """
    ranged = Hello(protocol=PROTOCOL, oldest=OLDEST_PROTOCOL, release=release)
    if OLDEST_PROTOCOL > WITHOUT_RANGE:
        return (ranged,)
    return ranged, Hello(protocol=WITHOUT_RANGE, release=release)


def find_common_version(hello: Hello) -> int | None:
    """Return the newest version that the sender of ``hello`` and this release speak; None if there
    is none.
    """
    newest = min(PROTOCOL, hello.protocol)
    oldest = max(OLDEST_PROTOCOL, hello.protocol if hello.oldest is None else hello.oldest)
    return newest if newest >= oldest else None


def downgrade_arguments(verb: str, args: Mapping[str, Any], broker: Welcome) -> Mapping[str, Any]:
    """Return the arguments of a verb without the fields that the broker's version lacks and that
    are not set.

    Raises:
        NotSupported: the broker's version lacks the verb.
        SchedulerRejected: a field is set that the broker's version lacks, and without which the job
            would not be what was asked for.
    """
    if VERBS_SINCE.get(verb, 1) > broker.protocol:
        raise NotSupported(
            f"The broker is of release {broker.release}, which has no verb `{verb}`. Update the "
            "broker to the platform's release and restart aitne-broker."
        )
    if verb in ("submit", "forecast") and broker.protocol < 2:
        args = _fix_scheduler_decisions(args)
    known = KNOWN_FIELDS.get(broker.protocol, {}).get(verb)
    return args if known is None else _select_known_fields(args, known, broker)


def _fix_scheduler_decisions(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with a submission that requests the amounts that the scheduler would be
    expected to decide on.
    """
    request = dict(args["request"])
    for _, *sections, name in LEFT_TO_SCHEDULER:
        target = request
        for section in sections:
            target[section] = dict(target[section])
            target = target[section]
        target.pop(name, None)
    return {**args, "request": request | {"max_requeues": request.get("max_requeues") or 0}}


def upgrade_answer(verb: str, answer: Any, broker: Welcome) -> Any:
    """Return a broker's answer with the names of fields that this release uses."""
    if broker.protocol < 2 and verb == "areas":
        return {"areas": [{"available": facts.get("there"), **facts} for facts in answer["areas"]]}
    return answer


def _select_known_fields(
    args: Mapping[str, Any], known: Mapping[str, Any], broker: Welcome, *path: str
) -> Mapping[str, Any]:
    """Return the part of the arguments, or of their section ``path``, that the broker knows.

    Raises ``SchedulerRejected`` if the job would not be the same without the rest.
    """
    kept = {}
    for name, value in args.items():
        if name in known:
            section = known[name]
            if section is not None and isinstance(value, Mapping):
                value = _select_known_fields(value, section, broker, *path, name)
            kept[name] = value
        elif (*path, name) in DISPLAYED or value is None or value is False or value == []:
            continue
        else:
            raise SchedulerRejected(
                f"The broker is of release {broker.release} and would not heed `{name}`. Leave it "
                "out, or have the broker updated to the platform's release.",
                name,
            )
    return kept
