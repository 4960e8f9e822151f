from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aitne.cli.main import main
from tests.support.fake_api import FakeApi


@dataclass
class Done:
    """The exit status and the output of one command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, which must be exactly one JSON document."""
        return json.loads(self.out)


Aitne = Callable[..., Done]


class Typed(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApi:
    """A platform behind AITNE_URL, without a socket."""
    found = FakeApi()
    monkeypatch.setattr("aitne.client.api_session.HttpTransport", lambda *_: found)
    monkeypatch.setattr("aitne.client.platform_discovery.PATIENCE_S", 0.15)
    monkeypatch.setattr("aitne.client.job_logs.REOPEN_S", 0.0)
    monkeypatch.delenv("AITNE_DATA_DIR", raising=False)
    monkeypatch.setenv("AITNE_URL", "http://aitne.test")
    monkeypatch.setenv("AITNE_TOKEN", "secret")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return found


@pytest.fixture
def aitne(
    api: FakeApi, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Aitne:
    """Run one command; ``typed`` is the input of the user at a terminal."""

    def run(*words: str, typed: str | None = None, piped: str = "") -> Done:
        stdin = io.StringIO(piped) if typed is None else Typed(typed)
        monkeypatch.setattr("sys.stdin", stdin)
        status = main(list(words))
        out, err = capfd.readouterr()
        return Done(status, out, err)

    return run
