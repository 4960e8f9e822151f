"""What is typed, and what OpenSSH is told."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from aitne.cli.verbs import ssh
from aitne.cli.verbs.terminal import EscapeDetector


@pytest.mark.parametrize(
    ("typed", "passed", "hung_up"),
    [
        (b"~.", b"", True),
        (b"ls\r~.", b"ls\r", True),
        (b"a~.", b"a~.", False),
        (b"\r~~.", b"\r~.", False),
        (b"\r~x", b"\r~x", False),
        (b"\n~.more", b"\n", True),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 100])
def test_the_escape_is_found_at_the_beginning_of_a_line(
    typed: bytes, passed: bytes, hung_up: bool, piece: int
) -> None:
    escape, out, over = EscapeDetector(), b"", False
    for start in range(0, len(typed), piece):
        found, over = escape.strip(typed[start : start + piece])
        out += found
        if over:
            break
    assert (out, over) == (passed, hung_up)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_the_persons_own_configuration_stays_and_ours_comes_first(home: Path) -> None:
    (home / ".ssh").mkdir()
    theirs = home / ".ssh" / "config"
    theirs.write_text("Host *\n    Compression yes\n")
    plan = ssh.plan_write("Host *.aitne\n")
    assert len(plan.changes) == 2
    plan.carry_out()
    own = home / ".config" / "aitne" / "ssh" / "config"
    assert own.read_text() == "Host *.aitne\n"
    assert theirs.read_text() == f"Include {own} # aitne\n\nHost *\n    Compression yes\n"
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o600
    assert ssh.plan_write("Host *.aitne\n").changes == []
    ssh.plan_write("Host *.aitne\n    User new\n").carry_out()
    assert theirs.read_text().count("Include") == 1


def test_a_host_has_the_key_that_it_had_last(home: Path) -> None:
    folder = Path(ssh.folder())
    folder.mkdir(parents=True)
    for host, key in (("a.aitne", "one"), ("b.aitne", "two"), ("a.aitne", "three")):
        ssh._pin(host, f"ssh-ed25519 {key}")
    known = (folder / "known_hosts").read_text().splitlines()
    assert known == ["b.aitne ssh-ed25519 two", "a.aitne ssh-ed25519 three"]
