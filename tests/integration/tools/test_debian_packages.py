"""Two processes that install packages by apt at the same time."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from aitne.adapters import apt_installation
from aitne.core.errors import SetupError


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """An apt of the test's own, which knows no mirror."""
    if not apt_installation.has_apt():
        pytest.skip("there is no apt-get here")
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    given = {
        "Dir::State::lists": lists,
        "Dir::Cache": tmp_path / "cache",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": "-",
    }
    return [word for name, value in given.items() for word in ("-o", f"{name}={value}")]


def test_second_apt_process_waits_for_lock(tmp_path: Path, options: list[str]) -> None:
    ended = threading.Event()

    def second() -> None:
        apt_installation.run_apt_get("update", options=options)
        ended.set()

    with (tmp_path / "lists" / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not ended.wait(2), "it went ahead, or gave up"
    waiting.join(60)
    assert ended.is_set()


def test_apt_error_is_passed_on(options: list[str]) -> None:
    with pytest.raises(SetupError, match=r"apt-get install failed .*no-such-package"):
        apt_installation.run_apt_get("install", "-y", "no-such-package", options=options)
