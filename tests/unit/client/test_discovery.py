from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aitne.client import credentials, find_platform, platform_discovery
from aitne.client.errors import NotRunning
from aitne.client.record_base import LIVE, TERMINAL
from aitne.core.errors import InvalidInput, SetupError
from aitne.core.jobs import states
from aitne.core.sessions import session_variables


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AITNE_DATA_DIR", "AITNE_URL", "AITNE_TOKEN", "AITNE_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def running(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; every data directory below it has a running platform."""
    root = home / "data"

    def ask(data_dir: str, verb: str) -> dict[str, str] | None:
        if not data_dir.startswith(str(root)):
            return None
        return {"api_url": f"http://127.0.0.1:1/{Path(data_dir).name}"}

    monkeypatch.setattr(platform_discovery, "ask_supervisor", ask)
    return root


def make(data_dir: Path, token: str = "own") -> Path:
    (data_dir / "secrets").mkdir(parents=True)
    (data_dir / "secrets" / "cli_token").write_text(f"{token}\n")
    return data_dir


def start(home: Path, data_dir: Path) -> None:
    (home / "state" / "aitne").mkdir(parents=True)
    (home / "state" / "aitne" / "current").write_text(f"{data_dir}\n")


def test_explicit_address_takes_precedence(
    home: Path, running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(home, make(running / "current"))
    monkeypatch.setenv("AITNE_DATA_DIR", str(make(running / "env")))
    monkeypatch.setenv("AITNE_URL", "http://env.test")
    assert find_platform(url="http://given.test").url == "http://given.test"
    assert find_platform(data_dir=make(running / "given")).url.endswith("/given")
    assert find_platform().url.endswith("/env")


def test_an_address_from_the_environment_comes_before_the_last_up(
    home: Path, running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(home, make(running / "current"))
    monkeypatch.setenv("AITNE_URL", "http://env.test/")
    monkeypatch.setenv("AITNE_TOKEN", "t")
    found = find_platform()
    assert (found.url, found.token) == ("http://env.test", "t")


def test_the_last_up_needs_no_login(home: Path, running: Path) -> None:
    start(home, make(running / "current"))
    found = find_platform()
    assert found.url.endswith("/current")
    assert found.token == "own"


def test_the_last_login_comes_last(home: Path) -> None:
    credentials.store_token("https://Far.test/", "kept", "ada")
    found = find_platform()
    assert (found.url, found.token) == ("https://far.test", "kept")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of a session's programs; returns the session token."""
    token = f"{session_variables.PREFIX}secret"
    monkeypatch.setenv("AITNE_URL", "https://nodes.test:8000/")
    monkeypatch.setenv("AITNE_TOKEN", token)
    monkeypatch.setenv("AITNE_CA_FILE", "/job/ca.pem")
    return token


def test_session_token_is_used_without_other_credential(home: Path, session: str) -> None:
    credentials.store_token("https://far.test", "kept", "ada")
    start(home, home / "gone")
    found = find_platform()
    assert (found.url, found.token) == ("https://nodes.test:8000", session)
    assert (found.ca_file, found.source) == ("/job/ca.pem", "this session")


def test_other_credential_for_platform_of_session_is_preferred(
    home: Path, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials.store_token("https://nodes.test:8000", "kept", "ada")
    assert find_platform().token == "kept"
    assert find_platform(token="given").token == "given"
    monkeypatch.setenv("AITNE_TOKEN", "aitne_pat_own")
    found = find_platform()
    assert (found.token, found.ca_file) == ("aitne_pat_own", "/job/ca.pem")


def test_session_on_machine_of_its_platform_uses_the_data_directory(
    home: Path, running: Path, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(home, make(running / "current"))
    assert find_platform().token == session, "another platform runs here"
    monkeypatch.setenv("AITNE_URL", "http://127.0.0.1:1/current")
    assert find_platform().token == "own"


def test_session_token_is_sent_to_no_other_platform(
    home: Path, running: Path, session: str
) -> None:
    found = find_platform(url="http://other.test")
    assert (found.token, found.ca_file) == (None, None)
    assert find_platform(url="https://Nodes.test:8000").token == session
    assert find_platform(data_dir=make(running / "given")).token == "own"


def test_missing_platform_error_says_what_to_do(home: Path) -> None:
    with pytest.raises(NotRunning, match="aitne up"):
        find_platform()


def test_a_platform_that_does_not_run_says_how_to_start_it(home: Path) -> None:
    with pytest.raises(NotRunning, match=r"aitne up --data-dir .*/gone --detach"):
        find_platform(data_dir=home / "gone")


def test_two_platforms_are_one_too_many(home: Path) -> None:
    with pytest.raises(InvalidInput):
        find_platform(url="http://a.test", data_dir=home)


def test_tokens_are_kept_by_address_for_their_owner_alone(home: Path) -> None:
    credentials.store_token("http://a.test", "one", "ada")
    credentials.store_token("http://b.test/", "two", "ada")
    credentials.store_token("http://a.test", "three", "ada")
    path = Path(credentials.credentials_file())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert credentials.find_token("http://A.test/") == "three"
    assert credentials.find_token("http://b.test") == "two"
    assert os.listdir(path.parent) == ["credentials.json"]


def test_a_damaged_credentials_file_is_named(home: Path) -> None:
    path = Path(credentials.credentials_file())
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(SetupError, match=r"credentials\.json"):
        credentials.find_token("http://a.test")


def test_the_state_names_are_the_cores() -> None:
    assert {state.value for state in states.TERMINAL} == TERMINAL
    assert {state.value for state in states.LIVE} == set(LIVE)


def test_the_package_stays_light_and_offers_the_client() -> None:
    check = (
        "import sys, aitne; assert 'aitne.client' not in sys.modules; from aitne import Client;"
        "heavy = {'pydantic', 'httpx', 'typer', 'rich', 'yaml', 'dataclasses'} & set(sys.modules);"
        "assert not heavy, heavy; print(Client.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False
    )
    assert done.stdout == "Client\n", done.stderr
