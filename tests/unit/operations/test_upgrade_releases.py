"""Releases lie side by side, and one link selects the one that is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.operations.upgrade.releases import COMPLETE, PROGRAMS, Releases, own_root


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    """A virtual environment of release 0.1.0 that no upgrade has touched."""
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        (tmp_path / "bin" / name).write_text(f"{name} 0.1.0")
    return Releases(tmp_path)


def make_release(releases: Releases, version: str) -> None:
    """A complete release."""
    programs = releases.folder(version) / "bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).write_text(f"{name} {version}")
    (releases.folder(version) / COMPLETE).touch()


def started(releases: Releases) -> list[str]:
    """The release of each program that a unit would start."""
    return [(releases.root / "bin" / name).read_text().split()[1] for name in PROGRAMS]


def test_programs_of_the_root_follow_the_selected_release(releases: Releases) -> None:
    assert releases.selected is None
    assert releases.program("0.1.0") == releases.root / "bin" / "aitne"
    releases.adopt("0.1.0")
    assert started(releases) == ["0.1.0"] * 3
    assert releases.program("0.1.0") != releases.root / "bin" / "aitne"
    make_release(releases, "0.2.0")
    releases.select("0.2.0")
    assert started(releases) == ["0.2.0"] * 3
    releases.adopt("0.2.0")
    assert (releases.selected, started(releases)) == ("0.2.0", ["0.2.0"] * 3)
    releases.select("0.1.0")
    assert started(releases) == ["0.1.0"] * 3


@pytest.mark.parametrize("fails_at", range(12))
def test_adoption_that_is_interrupted_leaves_programs_that_start(
    releases: Releases, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    replace, calls = Path.replace, iter(range(100))

    def interrupted(self: Path, target: Path) -> Path:
        if next(calls) == fails_at:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        try:
            releases.adopt("0.1.0")
        except KeyboardInterrupt:
            assert started(releases) == ["0.1.0"] * 3
    releases.adopt("0.1.0")
    assert started(releases) == ["0.1.0"] * 3
    assert all(os.path.islink(releases.root / "bin" / name) for name in PROGRAMS)


def test_earlier_releases_are_removed_but_not_that_of_the_root(releases: Releases) -> None:
    releases.adopt("0.1.0")
    for version in ("0.2.0", "0.3.0", "0.4.0"):
        make_release(releases, version)
    releases.prune("0.3.0", "0.4.0")
    left = sorted(path.name for path in (releases.root / "releases").iterdir())
    assert left == ["0.1.0", "0.3.0", "0.4.0"]


def test_source_tree_is_not_upgraded() -> None:
    with pytest.raises(SetupError, match="source tree"):
        own_root()
