"""``account``, ``admin user`` and ``login`` with a second factor, against a scripted API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_api import Answer, FakeApi
from tests.unit.cli.conftest import Aitne

SIGN_IN = {
    "id": "a1",
    "owner": "ada",
    "source": "password",
    "device": "Firefox on Linux\x1b[2J",
    "address": "192.0.2.1",
    "created_at": "2026-11-21T03:00:00Z",
    "last_seen_at": "2026-11-21T04:00:00Z",
    "expires_at": "2026-11-21T15:00:00Z",
    "acting_as": None,
    "acting_until": None,
    "current": False,
}
USER = {
    "name": "ada",
    "display_name": "Ada",
    "role": "user",
    "default_project": "ada",
    "disabled": False,
    "source": None,
    "created_at": "2026-11-21T03:00:00Z",
}


def test_how_the_portal_looks(aitne: Aitne, api: FakeApi) -> None:
    here = {"language": "de", "theme": "auto"}
    api.on("GET", "/me/preferences/portal", here, here, here)
    assert aitne("account", "preferences", "--json").json == here
    dark = {"language": None, "theme": "dark"}
    api.on("PUT", "/me/preferences/portal", {"language": "de", "theme": "dark"}, dark)
    done = aitne("account", "preferences", "--theme", "dark")
    assert api.requests[-1].json == {"language": "de", "theme": "dark"}
    assert "dark" in done.out
    done = aitne("account", "preferences", "--language", "browser", "--theme", "dark", "--json")
    assert (api.requests[-1].json, done.json) == (dark, dark)


def test_sign_ins_are_listed_and_ended(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/account/sign-ins", {"items": [SIGN_IN]}, {"items": [SIGN_IN]})
    assert aitne("account", "sessions", "ls", "--json").json == [SIGN_IN]
    shown = aitne("account", "sessions", "ls").out
    assert "Firefox on Linux\\x1b[2J" in shown
    api.on("DELETE", "/account/sign-ins/a1", Answer(204))
    api.on("DELETE", "/account/sign-ins", {"revoked": 3})
    assert aitne("account", "sessions", "revoke", "a1", "--yes", "--json").json == {
        "revoked": 1,
        "ended": 1,
    }
    assert "3 browsers logged out" in aitne("account", "sessions", "revoke", "all", "--yes").err
    assert api.requests[-1].query == {"keep_current": ["false"]}


def test_administrators_help_who_cannot_log_in(aitne: Aitne, api: FakeApi) -> None:
    link = {"url": "http://p.test/reset#token=x", "expires_at": "2026-11-22T15:00:00Z"}
    api.on("POST", "/users/ada/reset-link", link)
    api.on("POST", "/users/ada/unlock", Answer(204))
    api.on("POST", "/users/ada/reset-second-factor", Answer(204))
    assert aitne("admin", "user", "reset-link", "ada").out == "http://p.test/reset#token=x\n"
    assert "unlocked" in aitne("admin", "user", "unlock", "ada").err
    done = aitne("admin", "user", "reset-second-factor", "ada", "--yes", "--json")
    assert done.json == {"name": "ada", "second_factor": False}


def test_an_account_is_handed_over_after_a_question(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/users/ada", USER, USER)
    api.on("PATCH", "/users/ada", {**USER, "source": "ldap"})
    refused = aitne("admin", "user", "set", "ada", "--source", "ldap", typed="n\n")
    assert refused.status != 0
    done = aitne("admin", "user", "set", "ada", "--source", "ldap", typed="y\n")
    assert done.status == 0
    assert api.requests[-1].json == {"source": "ldap"}
    nothing = aitne("admin", "user", "set", "ada", "--yes")
    assert "There is nothing to change" in nothing.err


def step(enrol: Any = None) -> Answer:
    import json

    body = {
        "second_factor_required": True,
        "ticket": "t",
        "expires_at": "2026-11-21T15:00:00Z",
        "enrol": enrol,
    }
    return Answer(202, [json.dumps(body).encode()])


@pytest.mark.parametrize("given", [True, False])
def test_login_asks_for_the_code(aitne: Aitne, api: FakeApi, given: bool) -> None:
    me = {
        "user": USER,
        "projects": [],
        "csrf_token": "csrf",
        "platform": {"title": "Far", "version": "1", "cluster": "c", "scheduler": "local"},
    }
    api.on("POST", "/auth/login", step())
    api.on("POST", "/auth/totp", {**me, "recovery_codes": []})
    api.on("POST", "/tokens", {"token": "aitne_pat_x"})
    api.on("POST", "/auth/logout", Answer(204))
    api.on("GET", "/me", {**me, "csrf_token": None})
    words = ["login", "https://far.test", "-u", "ada", "--password-stdin"]
    done = (
        aitne(*words, "--code", "123456", piped="horse\n")
        if given
        else aitne(*words, typed="horse\n123456\n")
    )
    assert done.status == 0, done.err
    sent = next(each for each in api.requests if each.path.endswith("/auth/totp"))
    assert sent.json == {"ticket": "t", "code": "123456"}


def test_login_leaves_setting_one_up_to_the_portal(aitne: Aitne, api: FakeApi) -> None:
    api.on("POST", "/auth/login", step({"secret": "S", "uri": "u", "qr_svg": "<svg/>"}))
    done = aitne("login", "https://far.test", "-u", "ada", "--password-stdin", piped="horse\n")
    assert done.status != 0
    assert "Log in to the portal once" in done.err
