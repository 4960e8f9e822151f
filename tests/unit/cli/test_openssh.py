"""OpenSSH's configuration for jobs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from aitne.cli import openssh_config


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_the_persons_own_configuration_stays_and_ours_comes_first(home: Path) -> None:
    (home / ".ssh").mkdir()
    theirs = home / ".ssh" / "config"
    theirs.write_text("Host *\n    Compression yes\n")
    plan = openssh_config.plan_changes("Host *.aitne\n")
    assert len(plan.descriptions) == 2
    plan.write_files()
    own = home / ".config" / "aitne" / "ssh" / "config"
    assert own.read_text() == "Host *.aitne\n"
    assert theirs.read_text() == f"Include {own} # aitne\n\nHost *\n    Compression yes\n"
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o600
    assert openssh_config.plan_changes("Host *.aitne\n").descriptions == []
    openssh_config.plan_changes("Host *.aitne\n    User new\n").write_files()
    assert theirs.read_text().count("Include") == 1


def test_a_host_has_the_key_that_it_had_last(home: Path) -> None:
    folder = Path(openssh_config.get_ssh_dir())
    folder.mkdir(parents=True)
    for host, key in (("a.aitne", "one"), ("b.aitne", "two"), ("a.aitne", "three")):
        openssh_config._store_host_key(host, f"ssh-ed25519 {key}")
    known = (folder / "known_hosts").read_text().splitlines()
    assert known == ["b.aitne ssh-ed25519 two", "a.aitne ssh-ed25519 three"]
