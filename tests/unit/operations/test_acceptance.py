"""Steps of the acceptance test without a platform, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from aitne.client import Client
from aitne.core.errors import Unavailable
from aitne.core.models.check_result import CheckState
from aitne.operations.acceptance import step_execution
from aitne.operations.acceptance.acceptance_report import (
    StepResult,
    make_report,
    render_page,
    write_report,
)
from aitne.operations.acceptance.acceptance_steps import STEPS, AcceptanceStep
from aitne.operations.acceptance.site_client import AcceptanceSite, StepFailed, StepSkipped
from aitne.operations.acceptance.step_execution import run_steps


class NoClient:
    """A client that no step of these tests uses."""


def make_site() -> AcceptanceSite:
    return AcceptanceSite(cast(Client, NoClient()))


def steps_are(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    made = {
        name: AcceptanceStep(name, "It works.", function) for name, function in functions.items()
    }
    monkeypatch.setattr(step_execution, "STEPS", made)


def test_each_result_of_a_step_has_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def skipped(site: AcceptanceSite) -> str:
        raise StepSkipped("There is no image.")

    def failed(site: AcceptanceSite) -> str:
        raise StepFailed("It is slow.", "Make it fast.")

    def away(site: AcceptanceSite) -> str:
        raise Unavailable("Slurm does not answer.")

    steps_are(monkeypatch, good=lambda site: "It ran.", skipped=skipped, failed=failed, away=away)
    results: list[StepResult] = []
    run_steps(make_site(), lambda line: None, results)
    found = {result.name: (result.state.value, result.message) for result in results}
    assert found == {
        "good": ("ok", "It ran."),
        "skipped": ("skipped", "There is no image."),
        "failed": ("failed", "It is slow."),
        "away": ("failed", "Slurm does not answer."),
    }
    assert results[2].remedy == "Make it fast."
    assert "aitne admin doctor" in (results[3].remedy or "")


def test_hardware_is_tested_only_where_it_was_asked_for() -> None:
    site = make_site()
    hardware = {name: step.hardware for name, step in STEPS.items() if step.hardware}
    assert hardware == {"gpu": "gpu", "nccl": "gpu", "fabric": "fabric", "beegfs": "beegfs"}
    for name in hardware:
        state, message, _ = step_execution._run_step(STEPS[name], site)
        assert (state, "pass --" in message) == (CheckState.SKIPPED, True)


def result(message: str) -> StepResult:
    return StepResult(
        name="batch", state=CheckState.FAILED, message=message, remedy="Ask alice.", duration_s=1.0
    )


def test_anonymous_report_has_no_names() -> None:
    private = ("alice", "n1", "n12", "portal.example.org", "")
    text = "alice on n12, n1 and https://portal.example.org/x; malice and n123 stay"
    (check,) = make_report([result(text)], 2, interrupted=False, private=private).checks
    assert check.message == "name-1 on name-3, name-2 and https://name-4/x; malice and n123 stay"
    assert check.remedy == "Ask name-1."


def test_report_is_written_as_json_and_as_a_page(tmp_path: Path) -> None:
    report = make_report([result("<script>alert(1)</script>")], 2, interrupted=True)
    write_report(report, tmp_path / "new")
    document = json.loads((tmp_path / "new" / "report.json").read_text())
    assert document["interrupted"] is True
    assert document["checks"][0]["name"] == "batch"
    text = (tmp_path / "new" / "report.html").read_text()
    assert text == render_page(report)
    assert "<script>" not in text
    assert "The test was interrupted." in text


def test_each_step_is_in_the_handbook() -> None:
    page = (Path(__file__).parents[3] / "docs" / "handbook" / "acceptance.md").read_text()
    for name, step in STEPS.items():
        assert f"| `{name}` | {step.summary} |" in page
    assert page.count("\n| `") == len(STEPS)
