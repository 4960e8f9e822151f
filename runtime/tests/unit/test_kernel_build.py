"""The compiled collectives: when and where they are built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aitne_train._native import kernel_build


def test_without_a_compiler_the_build_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(kernel_build.BuildError, match="no C compiler"):
        kernel_build.build_library(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(kernel_build.BuildError, match="out of order"):
        kernel_build.build_library(tmp_path)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_takes_the_place_of_older_ones(tmp_path: Path) -> None:
    kind = kernel_build.library_name().rsplit("-", 1)[0]
    (tmp_path / f"{kind}-0123456789ab.so").write_bytes(b"of older sources")
    made = kernel_build.build_library(tmp_path)
    assert (
        [each.name for each in tmp_path.iterdir()] == [made.name] == [kernel_build.library_name()]
    )


@pytest.fixture
def uncompiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of kernels of an installation without a compiled one."""
    package = tmp_path / "package"
    package.mkdir()
    for name in kernel_build.SOURCES:
        shutil.copy(kernel_build.HERE / name, package)
    monkeypatch.setattr(kernel_build, "HERE", package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "aitne" / "kernels"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_first_use_compiles_the_kernel_for_this_user(
    uncompiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kernel_build.find_or_build_library()
    assert made == uncompiled / kernel_build.library_name()
    assert uncompiled.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("CC", "false")
    assert kernel_build.find_or_build_library() == made, "it is compiled once"
    shutil.copy(made, kernel_build.HERE)
    assert kernel_build.find_or_build_library() == kernel_build.HERE / made.name, (
        "that of the installation is preferred"
    )


def test_kernel_that_other_accounts_could_replace_is_refused(uncompiled: Path) -> None:
    uncompiled.mkdir(parents=True)
    uncompiled.chmod(0o770)
    with pytest.raises(kernel_build.BuildError, match="other accounts can write to"):
        kernel_build.find_or_build_library()


def test_missing_compiler_and_full_disk_are_sentences(
    uncompiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(kernel_build.BuildError, match="there is no C compiler"):
        kernel_build.find_or_build_library()
    shutil.rmtree(uncompiled)
    uncompiled.touch()
    with pytest.raises(kernel_build.BuildError, match="cannot be written"):
        kernel_build.find_or_build_library()
