"""Platform and broker of neighbouring releases agree on a protocol, and the older one gets only what it knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.broker import protocol_versions
from aitne.core.broker.protocol import VERBS
from aitne.core.broker.protocol_versions import (
    Hello,
    Welcome,
    downgrade_arguments,
    find_common_version,
)
from aitne.core.errors import NotSupported, SchedulerRejected
from tests.support.older_broker import recording

OLDER = Welcome(protocol=1, release="0.1.0", scheduler="slurm", settle_s=15)
REQUEST: dict[str, Any] = next(
    json.loads(json.dumps(line["sent"]["args"]).replace("{root}", "").replace("{anna}", "anna"))
    for line in recording()["transcript"]
    if line["sent"].get("verb") == "submit"
)
VALUES = st.integers(1, 30)


@given(VALUES, VALUES, VALUES, VALUES)
def test_version_is_the_newest_that_both_sides_speak(a: int, b: int, c: int, d: int) -> None:
    (oldest, newest), (from_, to) = sorted((a, b)), sorted((c, d))
    spoken = set(range(oldest, newest + 1)) & set(range(from_, to + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol_versions, "OLDEST_PROTOCOL", oldest)
        patch.setattr(protocol_versions, "PROTOCOL", newest)
        hello = Hello(protocol=to, oldest=from_, release="x")
        assert find_common_version(hello) == max(spoken, default=None)
        assert find_common_version(Hello(protocol=to, release="x")) == (
            to if oldest <= to <= newest else None
        )


def _paths(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for name, field in schema.get("properties", {}).items():
        yield (name,)
        yield from ((name, *path) for path in _paths(field, root))
    for choice in schema.get("anyOf", ()):
        yield from _paths(choice, root)


def _fields(schema: dict[str, Any]) -> set[tuple[str, ...]]:
    return set(_paths(schema, schema))


def _known(fields: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, section in fields.items():
        yield (name,)
        yield from ((name, *path) for path in _known(section or {}))


RECORDED = recording()["verbs"]
ADDED = {
    name: _fields(verb.args.model_json_schema()) - _fields(RECORDED[name]["args"])
    for name, verb in VERBS.items()
    if name in RECORDED
}
"""Fields that the recorded release lacks, by verb."""


def test_table_of_versions_has_what_the_recorded_release_knows() -> None:
    assert set(VERBS) - set(RECORDED) == set(protocol_versions.VERBS_SINCE)
    known = protocol_versions.KNOWN_FIELDS[1]
    for name, added in ADDED.items():
        assert not added or name in known, f"list the fields of version 1 in KNOWN_FIELDS: {name}"
    for name, fields in known.items():
        assert set(_known(fields)) == _fields(RECORDED[name]["args"]), name


def test_older_broker_requests_what_the_scheduler_was_to_decide() -> None:
    schema = recording()["verbs"]["submit"]["args"]
    request = dict(REQUEST["request"])
    request["resources"] = {**request["resources"], "memory_request": "default"}
    request |= {"default_time_limit": True, "max_requeues": None}
    sent = downgrade_arguments("submit", {"request": request}, OLDER)
    jsonschema.validate(sent, schema)
    kept = sent["request"]
    assert kept["resources"]["memory_bytes"] == request["resources"]["memory_bytes"]
    assert (kept["time_limit_s"], kept["max_requeues"]) == (request["time_limit_s"], 0)


@pytest.mark.parametrize(
    "path",
    sorted(ADDED["submit"] - set(protocol_versions.LEFT_TO_SCHEDULER)),
    ids=".".join,
)
def test_field_unknown_to_the_broker_is_left_out_or_refused(path: tuple[str, ...]) -> None:
    schema = recording()["verbs"]["submit"]["args"]

    def with_value(value: Any) -> dict[str, Any]:
        request = dict(REQUEST["request"])
        target = request
        for name in path[1:-1]:
            target[name] = dict(target[name])
            target = target[name]
        target[path[-1]] = value
        return {"request": request}

    for unset in (None, False, []):
        jsonschema.validate(downgrade_arguments("submit", with_value(unset), OLDER), schema)
    for value in (0, 1, True, "x", ["1"]):
        if path in protocol_versions.DISPLAYED:
            jsonschema.validate(downgrade_arguments("submit", with_value(value), OLDER), schema)
            continue
        with pytest.raises(SchedulerRejected, match=r"release 0\.1\.0") as caught:
            downgrade_arguments("submit", with_value(value), OLDER)
        assert caught.value.field == path[-1]
        present = OLDER.model_copy(update={"protocol": protocol_versions.PROTOCOL})
        assert downgrade_arguments("submit", with_value(value), present) == with_value(value)


@pytest.mark.parametrize("verb", sorted(protocol_versions.VERBS_SINCE))
def test_verb_unknown_to_the_broker_is_not_sent(verb: str) -> None:
    with pytest.raises(NotSupported, match=r"0\.1\.0.*Update the broker"):
        downgrade_arguments(verb, {}, OLDER)
