"""Files that travel with a job."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from aitne.client.working_tree_scan import read_working_tree
from aitne.core.errors import InvalidInput
from aitne.core.tree_document import JobTree

GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=GIT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def write(folder: Path, **contents: str) -> None:
    """Write files by name; ``__`` is a slash."""
    for name, content in contents.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def read(folder: Path, *, max_files: int = 100, max_bytes: int = 1_000) -> JobTree:
    return read_working_tree(folder, max_files=max_files, max_bytes=max_bytes).tree


def names(tree: JobTree) -> set[str]:
    return {entry.path for entry in (*tree.files, *tree.links)}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    write(folder, tracked="a", code__deep="b", deleted="c")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_git_says_which_files_travel(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    clean = read(repository)
    assert names(clean) == {"tracked", "code/deep", "deleted", ".gitignore"}
    assert (clean.commit, clean.dirty) == (commit, False)
    write(repository, untracked="d", junk__a="e")
    (repository / "noise.log").write_text("f")
    (repository / "deleted").unlink()
    changed = read(repository)
    assert names(changed) == {"tracked", "code/deep", ".gitignore", "untracked", "junk/a"}
    assert (changed.commit, changed.dirty) == (commit, True)
    below = read(repository / "code")
    assert (names(below), below.commit, below.dirty) == ({"deep"}, commit, False)


def test_aitneignore_leaves_files_out(repository: Path, tmp_path: Path) -> None:
    write(repository, data__a="1", data__keep="2", b="3")
    (repository / ".aitneignore").write_text("# data\ndata/*\n!data/keep\ntracked\n.*\n")
    assert names(read(repository)) == {"code/deep", "deleted", "data/keep", "b"}
    plain = tmp_path / "plain"
    write(plain, environment__lib__a="1", b="2", c__d="3", **{"c__.git__config": "4"})
    (plain / ".aitneignore").write_text("environment/\n.aitneignore\n")
    tree = read(plain)
    assert names(tree) == {"b", "c/d"}
    assert (tree.commit, tree.dirty) == (None, None)


def test_submodules_and_repositories_inside_travel_by_their_own_rules(
    repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    write(other, inner="a")
    (other / ".gitignore").write_text("*.tmp\n")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "first")
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "module")
    git(repository, *add)
    write(repository, **{"module__x.tmp": "b"})
    git(tmp_path, "clone", "--quiet", str(other), str(repository / "clone"))
    found = names(read(repository))
    assert {"module/inner", "clone/inner", ".gitmodules"} <= found
    assert "module/x.tmp" not in found
    assert not any("/.git/" in name for name in found)


def test_links_and_executable_files_are_kept(tmp_path: Path) -> None:
    write(tmp_path, run="#!/bin/sh\n", folder__a="a")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("folder/a")
    (tmp_path / "folder" / "up").symlink_to("../run")
    tree = read(tmp_path)
    assert {file.path: file.executable for file in tree.files} == {"run": True, "folder/a": False}
    assert {link.path: link.target for link in tree.links} == {
        "link": "folder/a",
        "folder/up": "../run",
    }


def test_entries_that_no_tree_can_have_are_named(tmp_path: Path) -> None:
    write(tmp_path, fine="a")
    (tmp_path / "absolute").symlink_to("/etc/passwd")
    (tmp_path / "out").symlink_to("../other")
    os.mkfifo(tmp_path / "pipe")
    os.mkdir(os.fsencode(tmp_path) + b"/n\xff")
    (tmp_path / os.fsdecode(b"n\xff") / "a").write_text("a")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(InvalidInput) as refused:
            read(tmp_path)
    for part in (
        "absolute points to an absolute path",
        "out points out of its folder",
        "pipe is neither a file",
        "socket is neither a file",
        r"n\xff/a has a name or target that is not UTF-8",
        "list the paths in .aitneignore",
    ):
        assert part in refused.value.message
    (tmp_path / ".aitneignore").write_bytes(b"absolute\nout\npipe\nsocket\nn\xff/\n")
    assert names(read(tmp_path)) == {"fine", ".aitneignore"}


def test_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    write(tmp_path, small="a", data__large="b" * 2_000)
    with pytest.raises(InvalidInput, match=r"largest files are data/large \(2 KiB\), small"):
        read(tmp_path)
    with pytest.raises(InvalidInput, match="more than 1 files"):
        read(tmp_path, max_files=1)
    with pytest.raises(InvalidInput, match="not a folder"):
        read(tmp_path / "small")


def test_without_git_a_working_tree_is_not_guessed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidInput, match="Install git"):
        read(repository)


def test_file_that_changed_since_is_not_uploaded(tmp_path: Path) -> None:
    write(tmp_path, a="before")
    found = read_working_tree(tmp_path, max_files=9, max_bytes=99)
    (sha256,) = found.files
    assert found.read_content(sha256) == b"before"
    write(tmp_path, a="much later")
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        found.read_content(sha256)
