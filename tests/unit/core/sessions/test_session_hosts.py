"""The hosts of users' sessions: one for each name, and settings under which they are safe."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.errors import SetupError
from aitne.core.models.base import USER_NAME
from aitne.core.sessions.entry_points import session_url
from aitne.core.sessions.host_names import make_host_name, user_label
from aitne.local_system.settings_loader import load_settings

JOB_ID = UUID("0b4e1b5a-7c1d-4a7e-9a0c-000000000000")
NAMES = st.from_regex(USER_NAME.rstrip("$"), fullmatch=True)


@pytest.mark.parametrize("name", ["ada", "a", "a-b", "ada2", "u-ada", "a" * 32])
def test_name_that_is_a_label_stays(name: str) -> None:
    assert user_label(name) == name


@pytest.mark.parametrize(
    "name", ["a_b", "_a", "a-", "a--b", "xn--mller-kva", "www", "hub", "u-ab--648fa9b31bc7ff7eb914"]
)
def test_any_other_name_gets_a_digest(name: str) -> None:
    assert re.fullmatch(r"u-[a-z0-9]{1,8}--[0-9a-f]{20}", user_label(name))


@given(NAMES, NAMES)
def test_names_never_share_a_label(one: str, other: str) -> None:
    assert (user_label(one) == user_label(other)) == (one == other)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", user_label(one))


def test_service_has_a_host_that_no_user_has() -> None:
    assert make_host_name("ada", "s.test", "user") == "ada.s.test"
    assert make_host_name("platform", "s.test", "service") == "platform--service.s.test"


def test_session_opens_at_the_host_of_its_owner() -> None:
    url = session_url("https://*.s.test:8443", "a_b", JOB_ID, "/tree")
    host = f"https://{user_label('a_b')}.s.test:8443"
    assert url == f"{host}/user/a_b/s-0b4e1b5a7c1d/tree"


def test_wildcard_puts_the_hub_at_the_name_below(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path, public_url="https://aitne.test", sessions_url="https://*.s.test/"
    )
    assert settings.has_user_domains
    assert settings.sessions_origin == "https://s.test"
    assert settings.sessions_address is None
    local = load_settings(tmp_path, port=9000, sessions_url="http://*.localhost:9001")
    assert (local.sessions_origin, local.sessions_address) == (
        "http://localhost:9001",
        "127.0.0.1:9001",
    )
    assert not load_settings(tmp_path).has_user_domains


@pytest.mark.parametrize(
    ("sessions_url", "public_url", "message"),
    [
        ("http://*.s.test", None, "needs https"),
        ("https://s.*.test", None, "is https://"),
        ("https://*.s.test/path", None, "is https://"),
        ("https://*.10.0.0.1", None, "is https://"),
        ("https://*", None, "is https://"),
        ("https://*.S.test", None, "is https://"),
        ("https://*.s.test", "https://s.test:8443", "must not be s.test or below it"),
        ("https://*.s.test", "https://portal.s.test", "must not be s.test or below it"),
        ("http://*.localhost:9001", "http://ada.localhost:9000", "must not be localhost or below"),
        ("https://*.s.aitne.test", "https://aitne.test", "must not be below aitne.test"),
    ],
)
def test_wildcard_that_isolates_nothing_is_refused(
    tmp_path: Path, sessions_url: str, public_url: str | None, message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        load_settings(tmp_path, sessions_url=sessions_url, public_url=public_url)
