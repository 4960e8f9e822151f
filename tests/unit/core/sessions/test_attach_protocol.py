"""Frames between the platform and the agent beside a job, whatever way they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.agent import attachment as agent
from aitne.core.sessions import attach_protocol

FRAMES = st.lists(
    st.tuples(st.sampled_from([b"D", b"E", b"X"]), st.binary(max_size=200)), max_size=8
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=10))
def test_agent_frames_are_read_by_platform(
    sent: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    data = b"".join(agent.encode_frame(kind, content) for kind, content in sent)
    frames = attach_protocol.AgentFrameDecoder()
    assert [each for part in cut(data, places) for each in frames.feed(part)] == sent
    assert frames.incomplete_data == b""


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=10))
def test_platform_frames_are_read_by_agent(
    sent: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    data = b"".join(attach_protocol.encode_frame(kind, content) for kind, content in sent)
    frames = agent.FrameDecoder()
    assert [each for part in cut(data, places) for each in frames.feed(part)] == sent


def test_output_of_launching_program_is_kept_between_frames() -> None:
    frames = attach_protocol.AgentFrameDecoder()
    data = (
        b"srun: error: no\n" + agent.encode_frame(b"D", b"\n\0") + b"slurmstepd: over\n\nunfinished"
    )
    assert list(frames.feed(data)) == [
        (attach_protocol.SAID, b"srun: error: no"),
        (b"D", b"\n\0"),
        (attach_protocol.SAID, b"slurmstepd: over"),
    ]
    assert frames.incomplete_data == b"unfinished"


def test_a_frame_of_absurd_length_is_refused() -> None:
    absurd = b"\0D" + (1 << 30).to_bytes(4, "big")
    with pytest.raises(ValueError, match="too long"):
        list(attach_protocol.AgentFrameDecoder().feed(absurd))
    with pytest.raises(ValueError, match="no frame"):
        agent.FrameDecoder().feed(absurd)
    with pytest.raises(ValueError, match="no frame"):
        agent.FrameDecoder().feed(b"srun: 12\n")
