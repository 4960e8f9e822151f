"""Documents of trees: each tree has exactly one, and nothing hostile is read as one."""

from __future__ import annotations

import contextlib
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aitne.core import tree_document
from aitne.core.models.job_source import RepoOptions
from aitne.core.tree_document import JobTree, TreeError, TreeFile, TreeLink

SHA = "ab" * 32
COMMIT = "c" * 40
NAMES = st.text(min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..") and "/" not in name and "\0" not in name
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@st.composite
def made(draw: st.DrawFn) -> JobTree:
    """Draw a tree that a file system could have, in any order."""
    files: list[TreeFile] = []
    links: list[TreeLink] = []
    taken: set[str] = set()
    for path in draw(st.lists(PATHS, unique=True, max_size=8)):
        with contextlib.suppress(UnicodeEncodeError):
            path.encode()
            above = {path.rsplit("/", n)[0] for n in range(1, path.count("/") + 1)}
            if above & taken or any(other.startswith(f"{path}/") for other in taken):
                continue
            taken.add(path)
            if draw(st.booleans()):
                sha256 = draw(st.binary(min_size=32, max_size=32)).hex()
                files.append(TreeFile(path, draw(st.integers(0, 99)), sha256, draw(st.booleans())))
            else:
                links.append(TreeLink(path, draw(st.sampled_from(["a", "a/b", "./a"]))))
    commit = draw(st.sampled_from([None, COMMIT]))
    dirty = None if commit is None else draw(st.booleans())
    return JobTree(tuple(files), tuple(links), commit, dirty)


@given(made(), st.randoms())
def test_tree_is_read_as_written(tree: JobTree, random: Random) -> None:
    sizes: dict[str, int] = {}
    if any(sizes.setdefault(file.sha256, file.size) != file.size for file in tree.files):
        return
    document = tree_document.serialize_tree(tree)
    files, links = list(tree.files), list(tree.links)
    random.shuffle(files)
    random.shuffle(links)
    assert (
        tree_document.serialize_tree(tree._replace(files=tuple(files), links=tuple(links)))
        == document
    )
    read = tree_document.parse_tree(document)
    assert (set(read.files), set(read.links)) == (set(files), set(links))
    assert (read.commit, read.dirty, read.size_bytes) == (tree.commit, tree.dirty, tree.size_bytes)
    assert b"\n" not in document


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from([SHA, COMMIT, "a", "a/b", "../a", "/a"]),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        dict.fromkeys(("commit", "dirty", "files", "links"), JSON) | {"version": st.just(1)}
    )
    | JSON
    | st.binary(max_size=60).map(lambda data: data.decode("latin-1"))
)
def test_only_the_document_of_a_tree_is_read(content: Any) -> None:
    """Serializing a parsed tree gives the same bytes; other documents are refused."""
    document = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    with contextlib.suppress(TreeError):
        assert tree_document.serialize_tree(tree_document.parse_tree(document)) == document


def text(**more: Any) -> bytes:
    content = {"commit": None, "dirty": None, "files": [], "links": [], "version": 1} | more
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"version":' + b"9" * 5_000 + b"}", "not JSON"),
        (text(version=2), "version 1"),
        (text(more=1), "version 1"),
        (text() + b" ", "spelling"),
        (text().replace(b"1}", b'1,"version":1}'), "spelling"),
        (text(files="a"), "not a list"),
        (text(files=[["a", 1, SHA]]), "Entry 0"),
        (text(files=[["a", True, SHA, False]]), "Entry 0"),
        (text(files=[["a", 1.0, SHA, False]]), "Entry 0"),
        (text(files=[["a", -1, SHA, False]]), "size or the sha256"),
        (text(files=[["a", 1, SHA.upper(), False]]), "size or the sha256"),
        (text(files=[["a", 1, SHA, False], ["b", 2, SHA, False]]), "another size"),
        (text(files=[["/a", 1, SHA, False]]), "not relative"),
        (text(files=[["a/../../b", 1, SHA, False]]), "plain path"),
        (text(files=[["", 1, SHA, False]]), "not relative"),
        (text(files=[["a\0", 1, SHA, False]]), "NUL"),
        (text(files=[["\ud800", 1, SHA, False]]), "not UTF-8"),
        (text(files=[["a" * 256, 1, SHA, False]]), "more than 255 bytes"),
        (text(files=[["a", 1, SHA, False], ["a", 1, SHA, False]]), "same path"),
        (text(files=[["b", 1, SHA, False], ["a", 1, SHA, False]]), "not in order"),
        (text(files=[["a", 1, SHA, False], ["a/b", 1, SHA, False]]), "not a folder"),
        (text(files=[["a", 1, SHA, False]], links=[["a", "b"]]), "same path"),
        (text(files=[["a/b", 1, SHA, False]], links=[["a", "b"]]), "not a folder"),
        (text(links=[["a", "/etc/passwd"]]), "absolute path"),
        (text(links=[["a/b", "../../c"]]), "points out of"),
        (text(commit="main", dirty=False), "not a hash"),
        (text(commit=COMMIT), "dirty"),
        (text(dirty=True), "dirty"),
        (
            text(links=[[f"{n:05}", "b"] for n in range(tree_document.MOST_ENTRIES + 1)]),
            "at most 20000",
        ),
        (text(files=[["a" * 200, 1, SHA, False]] * 20_000), "more than 4194304 bytes"),
    ],
)
def test_hostile_document_is_refused_with_a_reason(document: bytes, reason: str) -> None:
    with pytest.raises(TreeError, match=reason):
        tree_document.parse_tree(document)


def test_names_that_differ_in_case_are_different_files() -> None:
    tree = JobTree((TreeFile("A", 1, SHA, False), TreeFile("a", 1, SHA, True)), (), None, None)
    assert tree_document.parse_tree(tree_document.serialize_tree(tree)) == tree


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/pytorch/examples",
        "https://git.example.org:8443/a/b.git",
        "ssh://git@example.org:22/a.git",
        "file:///srv/git/a.git",
        "git@github.com:pytorch/examples.git",
    ],
)
def test_address_of_a_repository_is_accepted(url: str) -> None:
    assert RepoOptions(url=url, ref="v1.0/x").url == url
    assert RepoOptions(url=url).ref == "HEAD"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://example.org/a"},
        {"url": "git://example.org/a"},
        {"url": "ext::sh -c id"},
        {"url": "--upload-pack=id"},
        {"url": "/srv/git/a.git"},
        {"url": "file://host/a"},
        {"url": "https://ada:secret@example.org/a"},
        {"url": "https://token@example.org/a"},
        {"url": "ssh://git:secret@example.org/a"},
        {"url": "https://example.org/a?token=1"},
        {"url": "ssh://-oProxyCommand=id/a"},
        {"url": "-oProxyCommand=id:a"},
        {"url": "https://example.org/a b"},
        {"url": "https:///a"},
        {"url": "https://example.org:99999/a"},
        {"ref": "--upload-pack=id"},
        {"ref": "a..b"},
        {"ref": "HEAD@{1}"},
        {"ref": "main:refs/heads/x"},
        {"ref": ""},
        {"ref": "a b"},
        {"subdir": "../a"},
        {"subdir": "/a"},
        {"subdir": "a//b"},
    ],
)
def test_repository_that_git_could_misread_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        RepoOptions(**{"url": "https://example.org/a", "ref": "main"} | wrong)
