"""Event files that TensorBoard's own writer wrote."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.agent import tfevents

DATA = (
    Path(__file__).parents[2] / "assets" / "tensorboard" / "events.out.tfevents.scalars"
).read_bytes()


def test_scalars_of_both_kinds_are_read_and_pictures_passed_over() -> None:
    found, took, beyond = tfevents.read_events(DATA)
    assert (took, beyond) == (len(DATA), 0)
    assert [each for each in found if each[0] == "accuracy"] == [
        ("accuracy", step, step / 4) for step in range(5)
    ]
    assert found[-2:] == [("tf2/packed", 7, 0.75), ("tf2/content", -1, 1.5)]


@given(st.integers(0, len(DATA)))
def test_a_file_that_grows_is_read_piece_by_piece(cut: int) -> None:
    first, took, beyond = tfevents.read_events(DATA[:cut])
    assert took <= cut
    rest, more, _ = tfevents.read_events(DATA[took + beyond :])
    assert first + rest == tfevents.read_events(DATA)[0]
    assert took + beyond + more == len(DATA)


@pytest.mark.parametrize("at", [3, 9, 20, 60])
def test_a_changed_byte_is_found_out(at: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= 0x40
    with pytest.raises(tfevents.EventFileError):
        tfevents.read_events(bytes(damaged))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_damaged_or_contain_no_events(data: bytes) -> None:
    try:
        found, took, _ = tfevents.read_events(data)
    except tfevents.EventFileError:
        return
    assert (found, took) == ([], 0)


@given(st.binary(max_size=100))
def test_a_record_of_nonsense_ends_in_an_error_that_is_expected(data: bytes) -> None:
    try:
        tfevents.parse_scalars(data)
    except (struct.error, IndexError, ValueError):
        return
