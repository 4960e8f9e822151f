"""Login to a platform: by password, and by a code that is confirmed in the portal."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from aitne.client import credentials
from aitne.client.api_session import ApiSession
from tests.support.fake_api import Answer, FakeApi, problem
from tests.unit.cli.conftest import Aitne


def test_login_keeps_a_token_for_this_address(aitne: Aitne, api: FakeApi) -> None:
    me = {
        "user": {"name": "ada", "role": "user"},
        "csrf_token": "csrf",
        "platform": {"title": "Aitne"},
    }
    body = [json.dumps(me).encode()]
    api.on("POST", "/auth/login", Answer(200, body, {"Set-Cookie": "aitne_1=c; HttpOnly"}))
    api.on("POST", "/tokens", {"token": "aitne_pat_new"})
    api.on("POST", "/auth/logout", Answer(204))
    api.on("GET", "/me", me)
    done = aitne("login", "https://Far.test/", "-u", "ada", "--password-stdin", piped="horse\n")
    assert done.status == 0
    made = api.sent("POST", "/tokens")[0]
    assert made.headers["cookie"] == "aitne_1=c"
    assert made.headers["x-csrf-token"] == "csrf"
    assert made.headers["origin"] == "https://far.test"
    assert credentials.find_token("https://far.test") == "aitne_pat_new"
    assert stat.S_IMODE(Path(credentials.credentials_file()).stat().st_mode) == 0o600


def test_login_shows_code_and_keeps_token_once_it_is_confirmed(
    aitne: Aitne, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        "aitne.cli.commands.login.ApiSession",
        lambda platform: ApiSession(platform, sleep=pauses.append),
    )
    page_url = "http://far.test/device"
    codes = {
        "device_code": "secret",
        "user_code": "BCD-FGH-JKL",
        "verification_uri": page_url,
        "verification_uri_complete": page_url,
        "expires_in": 600,
        "interval": 5,
    }
    api.on("POST", "/auth/device", codes)
    pending = problem(409, "authorization_pending", "Not yet.")
    slower = problem(429, "rate_limited", "Slower.")
    slower.headers["Retry-After"] = "7"
    api.on("POST", "/auth/device/token", pending, slower, {"token": "aitne_pat_new"})
    api.on("GET", "/me", {"user": {"name": "ada"}, "platform": {"title": "Aitne"}})
    done = aitne("login", "far.test")
    assert done.status == 0, done.err
    assert f"Open {page_url}\nand enter the code BCD-FGH-JKL\n" in done.err
    assert pauses == [5, 5, 7, 5]
    assert api.sent("POST", "/auth/device/token")[0].json == {"device_code": "secret"}
    assert credentials.find_token("far.test") == "aitne_pat_new"
    api.on("POST", "/auth/device/token", problem(403, "not_allowed", "ada refused this login."))
    assert aitne("login", "far.test").err.endswith("aitne: ada refused this login.\n")


def test_a_wrong_password_keeps_nothing(aitne: Aitne, api: FakeApi) -> None:
    api.on("POST", "/auth/login", problem(401, "not_authenticated", "Wrong name or password."))
    done = aitne("login", "far.test", "-u", "ada", "--password-stdin", piped="x\n")
    assert done.status == 3
    assert not Path(credentials.credentials_file()).exists()
