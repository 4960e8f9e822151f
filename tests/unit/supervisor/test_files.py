from __future__ import annotations

import builtins
import errno
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from aitne.supervisor import child_process, software_environments, supervisor
from aitne.supervisor.child_process import Child, read_last_lines, rotate_log
from aitne.supervisor.proxy_error_pages import write_pages
from aitne.supervisor.secret_files import NAMES, ensure_secrets
from aitne.supervisor.supervisor_plan import ChildPlan


def test_secrets_are_ones_own_and_stay(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    ensure_secrets(folder)
    before = {name: (folder / name).read_text() for name in NAMES}
    assert all(len(value.strip()) == 64 for value in before.values())
    assert len(set(before.values())) == len(NAMES)
    assert {(folder / name).stat().st_mode & 0o777 for name in NAMES} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / NAMES[0]).write_text("")
    ensure_secrets(folder)
    assert (folder / NAMES[0]).read_text() != ""
    assert [(folder / name).read_text() for name in NAMES[1:]] == list(before.values())[1:]
    assert {entry.name for entry in folder.iterdir()} == set(NAMES)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]


def test_pages_bring_everything_and_lead_to_the_portal(tmp_path: Path) -> None:
    portal = "https://portal.example/?a=1&b=2"
    write_pages(tmp_path, platform='<b>"{{ 7 * 7 }}"</b>', portal_url=portal)
    for name in ("404.html", "503.html", "error.html", "hub/error.html", "hub/home.html"):
        page = (tmp_path / name).read_text()
        links = Links()
        links.feed(page)
        assert links.found == [portal]
        assert "<b>" not in page
        assert "{{ 7" not in page
        assert not re.search(r"url\((?!#)|@import", page)
        assert "prefers-color-scheme: dark" in page
    assert "{{ message" in (tmp_path / "hub/error.html").read_text()


def test_a_log_that_is_full_is_kept_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "LOG_BYTES", 10)
    log = tmp_path / "api.log"
    rotate_log(log)
    with log.open("ab") as writer:
        for round_ in range(6):
            writer.write(b"round %d, long enough\n" % round_)
            writer.flush()
            rotate_log(log)
            assert log.stat().st_size == 0
        writer.write(b"more\n")
    kept = {path.name: path.read_text()[:7] for path in tmp_path.iterdir()}
    assert kept == {
        "api.log": "more\n",
        "api.log.1": "round 5",
        "api.log.2": "round 4",
        "api.log.3": "round 3",
    }


def test_a_full_disk_takes_an_old_log_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(child_process, "LOG_BYTES", 10)
    monkeypatch.setattr(shutil, "copy2", full)
    monkeypatch.setattr(builtins, "print", full)
    log = tmp_path / "api.log"
    log.write_bytes(b"long enough to be kept aside")
    rotate_log(log)
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("api.log", 0)]
    supervisor._log("api ended; it is restarted")


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    assert read_last_lines(log) == ""
    log.write_bytes(b"\xff\n" + b"".join(b"line %d\n" % number for number in range(5_000)))
    assert read_last_lines(log, 2) == "line 4998\nline 4999"


def test_a_child_is_started_again_within_two_seconds_for_ever(tmp_path: Path) -> None:
    one = Child(ChildPlan("api", ["false"]), {}, tmp_path, tmp_path)
    one._began = float("inf")  # it never lived long
    delays = [one.get_restart_delay_s() for _ in range(1_000)]
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert max(delays) < 2
    one._began = float("-inf")
    assert one.get_restart_delay_s() == 0


def test_an_environment_is_named_by_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = software_environments.session_env_dir()
    assert folder.parent == tmp_path / "aitne" / "envs"
    assert re.fullmatch(r"session-[0-9a-f]{12}", folder.name)
    assert not software_environments.is_complete("session")
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch(mode=0o755)
    assert not software_environments.is_complete("session"), "an installation was interrupted"
    (folder / ".complete").touch()
    assert software_environments.is_complete("session")
    (folder / "bin" / "python").unlink()
    assert not software_environments.is_complete("session"), "its Python was removed"


def test_an_environment_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITNE_SESSION_ENV", str(tmp_path / "mine"))
    assert software_environments.session_env_dir() == tmp_path / "mine"
    with pytest.raises(software_environments.SetupError, match=r"AITNE_SESSION_ENV names .*mine"):
        software_environments.ensure_environments(print, ["session"])
    (tmp_path / "mine").mkdir()
    software_environments.ensure_environments(print, ["session"])


@pytest.mark.parametrize("name", ["hub.txt", "session.txt", "proxy/package-lock.json"])
def test_locks_pin_everything_and_name_no_registry(name: str) -> None:
    text = (software_environments.LOCKS / name).read_text()
    assert "://" not in re.sub(r'"url": "https://[^"]*"', "", text)
    if name.endswith(".txt"):
        assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.]+", line) for line in text.split())
