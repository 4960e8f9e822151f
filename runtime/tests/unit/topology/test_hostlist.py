"""Host lists and the natural order of names."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.topology import hostlist

NEARLY = st.text(alphabet="0123456789,[]-gpn é٣", max_size=30)


@given(text=st.one_of(NEARLY, st.text(max_size=40)))
def test_hostlist_parser_raises_nothing_but_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        hostlist.expand_hostlist(text)


HOST = st.from_regex(r"\A[a-z][a-z0-9-]{0,6}[0-9]{0,4}\Z")


@given(st.lists(HOST, max_size=30))
def test_hostlist_round_trip(names: list[str]) -> None:
    assert hostlist.expand_hostlist(hostlist.compress_hostlist(names)) == names


@given(st.integers(0, 1_200), st.integers(0, 40), st.integers(1, 5))
def test_hostlist_compresses_a_run_to_one_range(first: int, more: int, width: int) -> None:
    names = [f"node{number:0{width}}" for number in range(first, first + more + 1)]
    compressed = hostlist.compress_hostlist(names)
    assert hostlist.expand_hostlist(compressed) == names
    assert compressed.count("[") <= 1 + (len({len(name) for name in names}) > 1)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("node[01-03,7],gpu1", ["node01", "node02", "node03", "node7", "gpu1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[9-11]-ib", ["n9-ib", "n10-ib", "n11-ib"]),
    ],
)
def test_hostlist_forms(text: str, names: list[str]) -> None:
    assert hostlist.expand_hostlist(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[",
        "n]",
        "n[3-1]",
        "n[1-]",
        "n[]",
        "a,,b",
        "n[0-99999999]",
        "n[0-999][0-999]",
        "n[0-9999][0-9999][0-9999]",
        "n[" + "0-60000," * 500 + "1]",
        "a b",
        "-x",
    ],
)
def test_hostlist_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        hostlist.expand_hostlist(text)


def test_natural_order_compares_numbers() -> None:
    names = ["n10", "n9", "gpu2-ib", "n09", "gpu10-ib", "login"]
    assert sorted(names, key=hostlist.make_natural_key) == [
        "gpu2-ib",
        "gpu10-ib",
        "login",
        "n9",
        "n09",
        "n10",
    ]
