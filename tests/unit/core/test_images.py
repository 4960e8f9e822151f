"""Tests of the GPU drivers that an image requires."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.driver_match import (
    describe_driver_problem,
    find_supported_cuda,
    format_cuda_feature,
    match_drivers,
)
from aitne.core.models.cluster import Node, NodeState


def node(name: str, *features: str) -> Node:
    return Node(
        name=name,
        state=NodeState.IDLE,
        cpu_total=1,
        cpu_used=0,
        memory_total_bytes=1,
        memory_used_bytes=0,
        features=features,
        seen_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@given(st.integers(0, 999), st.integers(0, 999))
def test_driver_feature_is_read_as_written(major: int, minor: int) -> None:
    assert find_supported_cuda(["nvlink", format_cuda_feature(major, minor)]) == (major, minor)


@pytest.mark.parametrize(
    ("features", "release"),
    [
        (["CUDA-12.4", "ib"], (12, 4)),
        (["cuda_11.8", "cuda12.2"], (12, 2)),
        (["cuda12"], None),
        (["barracuda12.4"], None),
        ([], None),
    ],
)
def test_features(features: list[str], release: tuple[int, int] | None) -> None:
    assert find_supported_cuda(features) == release


def test_a_release_is_compared_as_numbers() -> None:
    found = match_drivers("12.10", [node("n1", "cuda12.9"), node("n2", "cuda12.10"), node("n3")])
    assert (found.able, found.too_old, found.unknown) == (("n2",), ("n1",), ("n3",))
    said = describe_driver_problem("12.10", found)
    assert said is not None
    assert "The drivers of n1 are older. n2 can run it. The driver of n3 is unknown." in said


def test_no_node_that_could_is_impossible() -> None:
    found = match_drivers("12.6", [node("n1", "cuda12.4"), node("n2", "cuda12.2")])
    assert found.is_impossible
    said = describe_driver_problem("12.6", found)
    assert said == "it needs a GPU driver for CUDA 12.6; those of n[1-2] are older, the newest 12.4"
    assert describe_driver_problem("12.6", match_drivers("12.6", [node("n1", "cuda13.0")])) is None
    assert not match_drivers("12.6", [node("n1")]).is_impossible
