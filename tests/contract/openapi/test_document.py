"""The OpenAPI document: stored, whole, and what clients are generated from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aitne.api.app import bare_app
from aitne.api.openapi import render

STORED = Path(__file__).parents[3] / "frontend" / "openapi.json"


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render(bare_app()))
    return found


def operations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in spec["paths"].values() for operation in path.values()]


def test_the_stored_document_is_this_one() -> None:
    assert STORED.read_text() == render(bare_app()), "run `make gen` and look at the difference"


def test_it_is_printed_without_a_platform(tmp_path: Path) -> None:
    environment = {"PATH": "", "HOME": str(tmp_path), "AITNE_DATA_DIR": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-m", "aitne.api.openapi"],
        env=environment,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["openapi"].startswith("3.1")


def test_every_operation_is_named_once_described_and_may_fail(spec: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(spec)]
    assert len(names) == len(set(names))
    for operation in operations(spec):
        assert operation["description"].endswith(".")
        assert "application/problem+json" in operation["responses"]["default"]["content"]
        assert "security" in operation


def test_every_reference_leads_somewhere(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]

    def references(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(references, node))
        if not isinstance(node, dict):
            return set()
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))

    found = {each.rsplit("/", 1)[1] for each in references(spec)}
    assert found <= set(schemas)
    assert set(schemas) <= found, "a schema that nothing uses"


def test_what_makes_things_takes_an_idempotency_key(spec: dict[str, Any]) -> None:
    for path in ("/api/v1/jobs", "/api/v1/sessions", "/api/v1/jobs/{job_id}/resubmit"):
        names = {each["name"] for each in spec["paths"][path]["post"]["parameters"]}
        assert "Idempotency-Key" in names
