"""Releases lie side by side, and one link selects the one that is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.operations.upgrade.interrupted_upgrade_choice import choose_upgrade
from aitne.operations.upgrade.releases import (
    COMPLETE,
    PROGRAMS,
    Releases,
    installed_extras,
    own_root,
)


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
    assert started(releases) == ["0.1.0"] * len(PROGRAMS)
    assert releases.program("0.1.0") != releases.root / "bin" / "aitne"
    make_release(releases, "0.2.0")
    releases.select("0.2.0")
    assert started(releases) == ["0.2.0"] * len(PROGRAMS)
    releases.adopt("0.2.0")
    assert (releases.selected, started(releases)) == ("0.2.0", ["0.2.0"] * len(PROGRAMS))
    releases.select("0.1.0")
    assert started(releases) == ["0.1.0"] * len(PROGRAMS)


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
            assert started(releases) == ["0.1.0"] * len(PROGRAMS)
    releases.adopt("0.1.0")
    assert started(releases) == ["0.1.0"] * len(PROGRAMS)
    assert all(os.path.islink(releases.root / "bin" / name) for name in PROGRAMS)


def test_earlier_releases_are_removed_but_not_that_of_the_root(releases: Releases) -> None:
    releases.adopt("0.1.0")
    for version in ("0.2.0", "0.3.0", "0.4.0"):
        make_release(releases, version)
    releases.prune("0.3.0", "0.4.0")
    left = sorted(path.name for path in (releases.root / "releases").iterdir())
    assert left == ["0.1.0", "0.3.0", "0.4.0"]


def test_release_from_which_a_process_runs_is_kept(releases: Releases) -> None:
    for version in ("0.2.0", "0.3.0"):
        make_release(releases, version)
    program = releases.folder("0.2.0") / "bin" / "sleep"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([str(program), "60"]) as process:
        releases.prune("0.3.0")
        assert program.exists()
        process.kill()
    releases.prune("0.3.0")
    assert not program.exists()


def test_release_of_the_index_and_of_a_wheel_are_installed_with_the_extras(
    releases: Releases, tmp_path: Path
) -> None:
    wheel = tmp_path / "aitne-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("empty", "")
    extras = ",".join(installed_extras())
    assert "server" in extras.split(",")
    journal, _, _ = choose_upgrade(tmp_path, releases, wheel=wheel, version=None)
    assert journal.requirement == f"aitne[{extras}] @ {wheel.as_uri()}"
    journal, _, _ = choose_upgrade(tmp_path, releases, wheel=None, version="0.2.0")
    assert journal.requirement == f"aitne[{extras}]==0.2.0"


def test_extras_are_those_whose_packages_are_all_installed(tmp_path: Path) -> None:
    folder = tmp_path / "aitne-0.1.0.dist-info"
    folder.mkdir()
    lines = [
        "Metadata-Version: 2.4",
        "Name: aitne",
        "Version: 0.1.0",
        *(f"Provides-Extra: {name}" for name in ("server", "ldap", "oidc", "pam")),
        "Requires-Dist: httpx>=0.28; extra == 'oidc'",
        'Requires-Dist: not-installed-anywhere>=1; extra == "oidc"',
        "Requires-Dist: not-installed-anywhere>=1; extra == 'ldap'",
        "Requires-Dist: pytest>=1; extra == 'pam'",
        "Provides-Extra: real-horovod",
        "Requires-Dist: aitne-train[horovod]; extra == 'real-horovod'",
        "Provides-Extra: runtime",
        "Requires-Dist: aitne-train>=0.1; extra == 'runtime'",
    ]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    assert installed_extras(Distribution.at(folder)) == ["pam", "runtime", "server"]


def test_source_tree_is_not_upgraded() -> None:
    with pytest.raises(SetupError, match="source tree"):
        own_root()
