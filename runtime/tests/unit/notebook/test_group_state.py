"""Reasons that a rank group states for the end of a rank."""

from __future__ import annotations

import pytest

from aitne_train.notebook.group_controller_state import describe_end


@pytest.mark.parametrize(
    ("number", "code", "in_cell", "said"),
    [
        (9, None, True, "was ended by signal 9 (SIGKILL)"),
        (None, None, False, "has ended"),
        (None, 3, True, "has ended with exit code 3"),
        # An engine that is asked to end exits with 0.
        (None, 0, False, "was asked to end"),
        (
            None,
            0,
            True,
            "was asked to end during a cell, or the cell has left Python with exit code 0",
        ),
    ],
)
def test_end_of_a_rank_is_described_with_its_reason(
    number: int | None, code: int | None, in_cell: bool, said: str
) -> None:
    assert describe_end(number, code, in_cell=in_cell) == said
