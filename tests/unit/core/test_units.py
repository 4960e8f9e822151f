"""Quantities: round trips, known forms, and nothing but ValueError for nonsense."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.agent import sizes as agent_sizes
from aitne.core import byte_size_format, units
from aitne.core.units import ArrayRange, Gres

PARSERS: list[Callable[[str], object]] = [
    units.parse_memory,
    units.parse_duration,
    units.parse_gres,
    units.parse_array,
]
# Text that looks like what the parsers read reaches deeper than arbitrary text.
NEARLY = st.text(alphabet="0123456789:-,%[]().GMKTBdhmsw gpua/é٣", max_size=30)


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
@given(text=st.one_of(NEARLY, st.text(max_size=40)))
def test_parsers_raise_nothing_but_value_error(parse: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(ValueError):
        parse(text)


@given(st.integers(min_value=0, max_value=1 << 60))
def test_memory_round_trip(amount: int) -> None:
    assert units.parse_memory(units.format_memory(amount)) == amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("512M", 512 << 20),
        ("16G", 16 << 30),
        ("16GiB", 16 << 30),
        ("16gb", 16 << 30),
        ("1.5G", 3 << 29),
        ("2 T", 2 << 40),
        ("100B", 100),
        (" 1K ", 1024),
    ],
)
def test_memory_forms(text: str, amount: int) -> None:
    assert units.parse_memory(text) == amount


@pytest.mark.parametrize("text", ["", "16", "16X", "-1G", "G", "1e3G", "1.G", "16 G B", "0x10G"])
def test_memory_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="such as 512M or 16G"):
        units.parse_memory(text)


@given(st.integers(min_value=0, max_value=10 * 365 * 86_400))
def test_duration_round_trip(seconds: int) -> None:
    assert units.parse_duration(units.format_duration(seconds)) == seconds
    assert units.parse_duration(units.format_slurm_time(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (1, "1 s"), (60, "1 min"), (5_400, "1 h 30 min"), (90_061, "1 d 1 h 1 min 1 s")],
)
def test_durations_in_messages_have_a_space_before_the_unit(seconds: int, text: str) -> None:
    assert units.describe_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1_800),
        ("1h30m", 5_400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("90", 5_400),
        ("10:30", 630),
        ("01:00:00", 3_600),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:00:00", 129_600),
    ],
)
def test_duration_forms(text: str, seconds: int) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "4x", "h", "1h-2m", "1:2:3:4", "-5", "1m1h", "4 hours"])
def test_duration_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30m"):
        units.parse_duration(text)


# The portal's tests read the same table.
AMOUNTS = json.loads((Path(__file__).parents[2] / "assets/amounts.json").read_text())


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: amount["en"])
def test_bytes_are_described_alike_by_platform_and_agent(amount: dict[str, Any]) -> None:
    assert byte_size_format.describe_bytes(amount["bytes"]) == amount["en"]
    assert agent_sizes.describe_bytes(amount["bytes"]) == amount["en"]


def test_a_limit_is_described_as_less_than_what_exceeds_it() -> None:
    limit = 23 << 30
    assert byte_size_format.describe_bytes(limit + 1, "up") == "23.1 GiB"
    assert byte_size_format.describe_bytes(limit - 1, "down") == "22.9 GiB"
    assert units.parse_memory("22.9 GiB") < limit


def test_formatting_refuses_negative_amounts() -> None:
    with pytest.raises(ValueError, match="negative"):
        units.format_memory(-1)
    with pytest.raises(ValueError, match="negative"):
        units.format_duration(-1)


GRES = st.builds(
    Gres,
    st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.-]{0,8}\Z").filter(lambda kind: kind != "none"),
    st.one_of(
        st.none(),
        st.from_regex(rf"\A{units.GPU_TYPE}\Z").filter(lambda name: name != "no_consume"),
        st.sampled_from(
            ["1080", "2G", "1g.10gb+me", "a100_1g.5gb", "NVIDIA A100", "gfx90a", "mi250x-oam"]
        ),
    ),
    st.integers(min_value=0, max_value=10**12),
)


@given(st.lists(GRES, max_size=5))
def test_gres_round_trip(resources: list[Gres]) -> None:
    assert units.parse_gres(",".join(map(str, resources))) == tuple(resources)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("(null)", ()),
        ("N/A", ()),
        ("gpu", (Gres("gpu", None, 1),)),
        ("gpu:4", (Gres("gpu", None, 4),)),
        ("gpu:a100:4(S:0-1),shard:8", (Gres("gpu", "a100", 4), Gres("shard", None, 8))),
        ("gpu:a100:2(IDX:0,3)", (Gres("gpu", "a100", 2),)),
        ("gres/gpu:1", (Gres("gpu", None, 1),)),
        ("gpu:1g.10gb:2", (Gres("gpu", "1g.10gb", 2),)),
        # The forms of squeue, scontrol and sacct from 22.05 to 26.05.
        ("gres:gpu:2", (Gres("gpu", None, 2),)),
        ("gres/gpu:a100=2,gres/gpu=2", (Gres("gpu", "a100", 2), Gres("gpu", None, 2))),
        ("gpu:(null):2(IDX:0-1)", (Gres("gpu", None, 2),)),
        ("gpu::2", (Gres("gpu", None, 2),)),
        ("gpu(IDX:0-1)", (Gres("gpu", None, 1),)),
        ("gpu:a100", (Gres("gpu", "a100", 1),)),
        ("gpu:1080", (Gres("gpu", None, 1080),)),
        ("gpu:1080:2", (Gres("gpu", "1080", 2),)),
        ("gpu:2K,ssd:1G", (Gres("gpu", None, 2048), Gres("ssd", None, 1 << 30))),
        ("gpu:2k,ssd:nvme:1g", (Gres("gpu", None, 2048), Gres("ssd", "nvme", 1 << 30))),
        ("gpu:NVIDIA A100:2(S:0-1)", (Gres("gpu", "NVIDIA A100", 2),)),
        ("gpu:(null):4(IDX:0-3)", (Gres("gpu", None, 4),)),
        ("gpu:a100_1g.5gb:2", (Gres("gpu", "a100_1g.5gb", 2),)),
        (
            "gpu:nvidia_rtx_pro_6000_blackwell_server_edition_1g.24gb+me:1",
            (Gres("gpu", "nvidia_rtx_pro_6000_blackwell_server_edition_1g.24gb+me", 1),),
        ),
        (
            "shard:h200:0(0/4,0/4),bandwidth:lustre:no_consume:4G,nic:no_consume:1",
            (Gres("shard", "h200", 0), Gres("bandwidth", "lustre", 4 << 30), Gres("nic", None, 1)),
        ),
        ("none", ()),
        ("gpu:", None),
        ("gpu:a:b:c", None),
        ("gpu:2,", None),
        ("gpu: 2", None),
        ("gpu:a100 :2", None),
        ("gpu:4 a100", None),
        ("gpu:1.5T", None),
        ("gpu:a100:-1", None),
        ("1:2", None),
    ],
)
def test_gres_forms(text: str, expected: tuple[Gres, ...] | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="kind:type:count"):
            units.parse_gres(text)
    else:
        assert units.parse_gres(text) == units.parse_slurm_gres(text) == expected


@given(st.lists(GRES, max_size=5), st.text(max_size=20))
def test_gres_in_answers_are_read_beside_what_is_none(resources: list[Gres], text: str) -> None:
    strange = text.translate({ord(char): "_" for char in ",()"})
    listed = ",".join([*map(str, resources), f"?{strange}"])
    assert units.parse_slurm_gres(listed) == tuple(resources)
    assert units.parse_slurm_gres(text) is not None


@given(
    st.lists(st.integers(0, 5_000), min_size=1, max_size=60, unique=True),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_array_round_trip(indices: list[int], throttle: int | None) -> None:
    array = ArrayRange.from_indices(indices, throttle)
    assert units.parse_array(str(array)) == array


@pytest.mark.parametrize(
    ("text", "indices", "throttle"),
    [
        ("0-9%2", tuple(range(10)), 2),
        ("1,3,5", (1, 3, 5), None),
        ("0-99:25", (0, 25, 50, 75), None),
        ("5,1-2,2", (1, 2, 5), None),
    ],
)
def test_array_forms(text: str, indices: tuple[int, ...], throttle: int | None) -> None:
    assert units.parse_array(text) == ArrayRange(indices, throttle)


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-9%0", "0-9%", "0-9:0", "1,,2", "0-10000"])
def test_array_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="array"):
        units.parse_array(text)
