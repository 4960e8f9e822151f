"""The OpenAPI document: stored, complete, and suitable for generated clients."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from pydantic import TypeAdapter

from aitne.api.body_examples import BODY_EXAMPLES
from aitne.api.routers import V1
from aitne.api.routes import bare_app
from tests.support.openapi import openapi_document, openapi_text

STORED = Path(__file__).parents[3] / "frontend" / "openapi.json"


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return openapi_document()


def operations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in spec["paths"].values() for operation in path.values()]


def test_the_stored_document_is_this_one() -> None:
    assert STORED.read_text() == openapi_text(), "run `make gen` and look at the difference"


def test_openapi_document_is_printed_without_platform(tmp_path: Path) -> None:
    environment = {"PATH": "", "HOME": str(tmp_path), "AITNE_DATA_DIR": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-m", "aitne.api.openapi"],
        env=environment,
        capture_output=True,
        check=True,
        timeout=300,
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
    components = spec["components"]

    def references(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(references, node))
        if not isinstance(node, dict):
            return set()
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))

    defined = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses")
        for name in components[kind]
    }
    assert references(spec) == defined, "a missing component, or one that nothing uses"


def test_operations_name_the_problems_that_they_answer(spec: dict[str, Any]) -> None:
    statuses = {
        operation["operationId"]: {*operation["responses"]} - {"default"}
        for operation in operations(spec)
    }
    assert statuses["create_job"] == {"201", *["401", "403", "413", "422", "429", "503"]}
    assert statuses["get_job"] == {"200", *["401", "403", "404", "422", "429", "503"]}
    assert statuses["update_user"] == {
        "200",
        *["401", "403", "404", "412", "413", "422", "429", "503"],
    }
    assert statuses["list_jobs"] == {"200", *["401", "403", "414", "422", "429", "503"]}
    assert statuses["login"] == {"200", "202", *["413", "422", "429", "503"]}
    limited = spec["components"]["responses"]["RateLimited"]
    assert limited["headers"]["Retry-After"]["schema"] == {"type": "integer"}


def test_creating_requests_accept_idempotency_key(spec: dict[str, Any]) -> None:
    for path in ("/api/v1/jobs", "/api/v1/sessions", "/api/v1/jobs/{job_id}/resubmit"):
        names = {each["name"] for each in spec["paths"][path]["post"]["parameters"]}
        assert "Idempotency-Key" in names


def test_every_operation_and_parameter_is_described(spec: dict[str, Any]) -> None:
    for operation in operations(spec):
        assert operation["summary"], operation["operationId"]
        assert operation["description"], operation["operationId"]
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), (operation["operationId"], parameter["name"])


def test_every_property_is_described_in_words_of_json(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]
    said = {
        f"{name}.{field}": property_.get("description", "")
        for name, schema in schemas.items()
        for field, property_ in schema.get("properties", {}).items()
    }
    assert len(said) > 1_000
    assert [place for place, text in said.items() if not text] == []
    assert [place for place, text in said.items() if "None" in text or "``" in text] == []


def test_a_description_is_read_from_the_model_that_the_schema_is_of(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]
    # Beside a reference, from a docstring, and of a name that a model elsewhere has too.
    severity = schemas["NewAnnouncement"]["properties"]["severity"]
    assert severity["description"] == "Severity of the announcement."
    assert schemas["JobView"]["properties"]["stages"]["description"] == "Stages of the job."
    launched = schemas["Launch-Input"]["properties"]["launched_at"]
    assert launched["description"] == "Time at which the job was created."


def test_every_json_body_has_an_example_that_the_operation_takes(spec: dict[str, Any]) -> None:
    shown = {
        operation["operationId"]: content["example"]
        for operation in operations(spec)
        for media_type, content in operation.get("requestBody", {"content": {}})["content"].items()
        if media_type == "application/json"
    }
    assert shown == BODY_EXAMPLES
    models = {
        route.name: route.body_field.field_info.annotation
        for route in iter_route_contexts(bare_app().routes)
        if getattr(route, "body_field", None) is not None and route.path.startswith(V1)
    }
    for name, example in shown.items():
        TypeAdapter(models[name]).validate_json(json.dumps(example))
