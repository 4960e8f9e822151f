"""The mesh of ranks as users write it."""

from __future__ import annotations

import pytest

from aitne.core.placement.mesh_parser import parse_mesh


def test_mesh_keeps_the_order_of_its_dimensions() -> None:
    assert list(parse_mesh("tensor=4, pipeline=2,data=8").items()) == [
        ("tensor", 4),
        ("pipeline", 2),
        ("data", 8),
    ]


@pytest.mark.parametrize(
    "text", ["", "4,2", "a=0", "a=-1", "a=1,a=2", "A=1", "a=1e3", "a=1,", "a=123456"]
)
def test_other_texts_are_no_mesh(text: str) -> None:
    with pytest.raises(ValueError, match="tensor=4"):
        parse_mesh(text)
