"""Tests of the error messages on stderr."""

from __future__ import annotations

import pytest

from aitne.cli import error_report
from aitne.core.errors import FieldProblem, InvalidInput


def test_table_does_not_repeat_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    problem = FieldProblem("commands", "must be a list: write `- echo hi`", "7")
    error_report.report_error(
        InvalidInput(f"commands: {problem.message}", [problem]), as_json=False
    )
    said = capsys.readouterr().err
    assert said.count("must be a list") == 1
    assert "ALLOWED" not in said


def test_of_several_problems_each_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [
        FieldProblem("image", "torch:1.0 is retired", "torch:1.0", "bare, base"),
        FieldProblem("datasets.1", "faces is not granted to the project nlp", "faces", "none"),
    ]
    assert (
        error_report.report_error(InvalidInput("both", problems), as_json=False)
        == error_report.INVALID
    )
    said = capsys.readouterr().err
    assert "  image: torch:1.0 is retired\n" in said
    assert "  datasets.1: faces is not granted to the project nlp\n" in said
    assert "bare, base" in said
