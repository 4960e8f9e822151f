"""What is said on stderr when something is wrong."""

from __future__ import annotations

import pytest

from aitne.cli import failure
from aitne.core.errors import FieldProblem, InvalidInput


def test_of_several_problems_each_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [
        FieldProblem("image", "torch:1.0 is retired", "torch:1.0", "bare, base"),
        FieldProblem("datasets.1", "faces is not granted to the project nlp", "faces", "none"),
    ]
    assert failure.report(InvalidInput("both", problems), as_json=False) == failure.INVALID
    said = capsys.readouterr().err
    assert "  image: torch:1.0 is retired\n" in said
    assert "  datasets.1: faces is not granted to the project nlp\n" in said
    assert "bare, base" in said
