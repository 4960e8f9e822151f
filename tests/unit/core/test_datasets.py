"""Manifests: every dataset has exactly one, and nothing hostile is read as one."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core import dataset_manifest
from aitne.core.dataset_manifest import Entry, ManifestError, ManifestFile, ManifestLink

SUM = "ab" * 32
NAMES = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.text("ab.-é\n\t\\'\" \u2028\u202e", min_size=1, max_size=6).map(str.encode),
).filter(lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
SUMS = st.binary(min_size=32, max_size=32).map(bytes.hex)


@st.composite
def trees(draw: st.DrawFn) -> list[Entry]:
    """Draw entries that a file system could have: none is below a file or a link."""
    entries: list[Entry] = []
    taken: set[bytes] = set()
    for path in draw(st.lists(PATHS, unique=True, max_size=12)):
        above = {path.rsplit(b"/", n)[0] for n in range(1, path.count(b"/") + 1)}
        if above & taken or any(other.startswith(path + b"/") for other in taken):
            continue
        taken.add(path)
        if draw(st.booleans()):
            entries.append(ManifestFile(path, draw(st.integers(0, 2**40)), draw(SUMS)))
        else:
            up = draw(st.integers(0, path.count(b"/")))
            entries.append(ManifestLink(path, b"../" * up + draw(PATHS)))
    return entries


def pieces(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def text_of(*lines: str) -> bytes:
    return dataset_manifest.HEADER + "".join(f"{line}\n" for line in lines).encode()


@given(trees(), st.randoms(), st.integers(1, 50))
def test_manifest_is_read_as_written(entries: list[Entry], random: Random, size: int) -> None:
    text = b"".join(dataset_manifest.serialize_manifest(entries))
    random.shuffle(entries)

    assert b"".join(dataset_manifest.serialize_manifest(entries)) == text
    read = list(dataset_manifest.parse_manifest(pieces(text, size)))
    assert set(read) == set(entries)
    assert len(read) == len(entries)
    assert b"".join(dataset_manifest.serialize_manifest(read)) == text
    summary = dataset_manifest.summarize_manifest(pieces(text, size))
    assert summary == dataset_manifest.Summary(
        hashlib.sha256(text).hexdigest(),
        sum(isinstance(each, ManifestFile) for each in entries),
        sum(isinstance(each, ManifestLink) for each in entries),
        sum(each.size for each in entries if isinstance(each, ManifestFile)),
    )


@given(trees())
def test_a_manifest_is_plain_text_with_one_line_for_each_entry(entries: list[Entry]) -> None:
    lines = b"".join(dataset_manifest.serialize_manifest(entries)).decode("utf-8").splitlines()
    assert len(lines) == 1 + len(entries)


@given(trees(), st.data())
def test_changed_manifest_is_different_or_invalid(
    entries: list[Entry], data: st.DataObject
) -> None:
    text = b"".join(dataset_manifest.serialize_manifest(entries))
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.binary(max_size=3)) + text[at + 1 :]
    try:
        read = list(dataset_manifest.parse_manifest([changed]))
    except ManifestError:
        return
    # What is read at all is canonical: no two texts mean the same.
    assert b"".join(dataset_manifest.serialize_manifest(read)) == changed


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_hostile_bytes_raise_nothing_but_a_manifests_error(chunks: list[bytes]) -> None:
    for hostile in (chunks, [dataset_manifest.HEADER, *chunks], [text_of(f"{SUM}\t1\ta"), *chunks]):
        with contextlib.suppress(ManifestError):
            list(dataset_manifest.parse_manifest(hostile))


@pytest.mark.parametrize(
    ("lines", "number", "reason"),
    [
        ([f"{SUM}\t1\t/etc/passwd"], 2, "not relative"),
        ([f"{SUM}\t1\ta/../../b"], 2, "'..'"),
        ([f"{SUM}\t1\ta//b"], 2, "empty part"),
        ([f"{SUM}\t1\ta/"], 2, "empty part"),
        ([f"{SUM}\t1\ta\\x00b"], 2, "NUL"),
        ([f"{SUM}\t1\t{'a' * 256}"], 2, "255"),
        ([f"{SUM}\t1\t{'a/' * 2048}a"], 2, "4095"),
        ([f"{SUM}\t1\t{'a/' * 99_999}a"], 2, "too long"),
        ([f"{SUM}\t01\ta"], 2, "neither"),
        ([f"{SUM}\t-1\ta"], 2, "neither"),
        ([f"{SUM}\t9999999999999999999\ta"], 2, "size"),
        ([f"{SUM.upper()}\t1\ta"], 2, "neither"),
        ([f"{SUM}\t1\t\\x61"], 2, "canonical form"),
        ([f"{SUM}\t1\ta\\"], 2, "canonical form"),
        ([f"{SUM}\t1\ta", f"{SUM}\t2\ta"], 3, "same path"),
        ([f"{SUM}\t1\tb", f"{SUM}\t1\ta"], 3, "order"),
        ([f"{SUM}\t1\ta-b", f"{SUM}\t1\ta/b"], 3, "order"),
        ([f"{SUM}\t1\ta", f"{SUM}\t1\ta/b"], 3, "below"),
        (["link\t.\ta", f"{SUM}\t1\ta/b"], 3, "below"),
        (["link\t/etc/passwd\ta"], 2, "absolute"),
        (["link\t../x\ta"], 2, "out of"),
        (["link\t../../x\ta/b"], 2, "out of"),
        (["link\tb/../../x\ta/b"], 2, "middle"),
        (["link\t\ta"], 2, "neither"),
        ([""], 2, "neither"),
    ],
)
def test_invalid_manifest_is_refused_with_line(lines: list[str], number: int, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        list(dataset_manifest.parse_manifest([text_of(*lines)]))
    assert caught.value.line == number


@pytest.mark.parametrize(
    "text", [b"", b"aitne-manifest 1", b"aitne-manifest 2\n", text_of(f"{SUM}\t1\ta")[:-1]]
)
def test_a_text_that_is_cut_off_or_of_another_format_is_refused(text: bytes) -> None:
    with pytest.raises(ManifestError):
        list(dataset_manifest.parse_manifest([text]))


def test_a_line_without_an_end_is_not_held() -> None:
    given = 0

    def endless() -> Iterator[bytes]:
        nonlocal given
        yield dataset_manifest.HEADER
        while True:
            given += 1
            yield b"a" * 1_000

    with pytest.raises(ManifestError, match="too long"):
        list(dataset_manifest.parse_manifest(endless()))
    assert given * 1_000 <= dataset_manifest.MAX_LINE_BYTES + 1_000


def test_links_within_the_dataset_are_entries() -> None:
    text = text_of("link\t../b\ta/l", f"{SUM}\t3\tb", "link\t.\tc")
    assert list(dataset_manifest.parse_manifest([text])) == [
        ManifestLink(b"a/l", b"../b"),
        ManifestFile(b"b", 3, SUM),
        ManifestLink(b"c", b"."),
    ]


def test_invalid_manifest_entries_are_not_written() -> None:
    with pytest.raises(ManifestError, match=r"a/l: it points out"):
        list(dataset_manifest.serialize_manifest([ManifestLink(b"a/l", b"../../b")]))
    with pytest.raises(ManifestError, match="same path"):
        list(
            dataset_manifest.serialize_manifest(
                [ManifestFile(b"a", 1, SUM), ManifestFile(b"a", 2, SUM)]
            )
        )


@given(st.binary(max_size=200), st.integers(1, 7))
def test_a_packed_text_is_unpacked_again(text: bytes, size: int) -> None:
    packed = b"".join(dataset_manifest.compress_manifest(pieces(text, size)))
    assert gzip.decompress(packed) == text
    again = b"".join(
        dataset_manifest.decompress_manifest(pieces(packed, size), most_bytes=len(text))
    )
    assert again == text


@given(st.binary(max_size=60), st.integers(0, 30))
def test_hostile_packets_raise_nothing_but_a_manifests_error(noise: bytes, cut: int) -> None:
    packed = b"".join(dataset_manifest.compress_manifest([b"some text"]))
    with pytest.raises(ManifestError):
        list(
            dataset_manifest.decompress_manifest(
                [packed[:cut] if cut < len(packed) else b""], most_bytes=100
            )
        )
    with pytest.raises(ManifestError):
        list(dataset_manifest.decompress_manifest([packed, noise or b"x"], most_bytes=100))


def test_a_small_packet_cannot_become_endless_text() -> None:
    packed = b"".join(dataset_manifest.compress_manifest(bytes(1 << 20) for _ in range(64)))
    held: list[int] = []
    with pytest.raises(ManifestError, match="larger than 3000000"):
        held.extend(map(len, dataset_manifest.decompress_manifest([packed], most_bytes=3_000_000)))
    assert sum(held) <= 3_000_000
