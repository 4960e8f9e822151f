from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from aitne.bootstrap.adapters import IDENTITIES, make_identity_sources, utc_now
from aitne.core.errors import SetupError
from aitne.core.ports.identity_source import FormSource, RedirectSource
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from aitne.services.users.browser_descriptions import describe_browser
from tests.support.requirements import need_package

LDAP = {"url": "ldaps://ldap.example.org", "search_base": "dc=example,dc=org"}
OIDC = {"issuer": "https://login.example.org"}


@pytest.mark.parametrize("name", IDENTITIES.names())
def test_every_source_is_one_of_the_two_kinds(name: str, tmp_path: Path) -> None:
    if name == "pam" and os.geteuid() != 0:
        pytest.skip("without a broker only root may ask PAM")
    if name == "ldap":
        need_package("bonsai")
    settings = Settings(data_dir=tmp_path, auth={"sources": [name], "ldap": LDAP, "oidc": OIDC})
    (source,) = make_identity_sources(settings, utc_now)
    assert source.name == name
    assert isinstance(source, FormSource) is not isinstance(source, RedirectSource)


def test_a_source_that_there_is_not_is_named_with_those_there_are(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, auth={"sources": ["kerberos"]})
    with pytest.raises(SetupError, match="no source of logins 'kerberos'; there is: ldap, oidc"):
        make_identity_sources(settings, utc_now)


def test_the_file_chooses(tmp_path: Path) -> None:
    (tmp_path / "aitne.toml").write_text(
        '[auth]\nsources = ["password", "ldap"]\nsecond_factor = "admins"\n'
        '[auth.ldap]\nurl = "ldaps://ldap.example.org"\nsearch_base = "dc=example,dc=org"\n'
    )
    auth = load_settings(tmp_path).auth
    assert (auth.sources, auth.second_factor) == (["password", "ldap"], "admins")
    assert auth.ldap.url == "ldaps://ldap.example.org"


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"sources": []}, "at least 1"),
        ({"sources": ["password", "password"]}, "twice"),
        ({"sources": ["ldap"]}, r"\[auth.ldap\] has no url"),
        ({"sources": ["oidc"]}, r"\[auth.oidc\] has no issuer"),
        ({"ldap": {"url": "http://x", "search_base": "x"}}, "must be ldap://"),
        ({"ldap": {"url": "ldap://x"}}, "user_dn or search_base"),
        (
            {"ldap": {"url": "ldap://x", "search_base": "x", "start_tls": False}},
            "unencrypted",
        ),
        ({"ldap": {**LDAP, "search_filter": "(uid=ada)"}}, r"must have \{user\}"),
        ({"ldap": {**LDAP, "user_dn": "uid=ada"}}, r"must have \{user\}"),
        ({"oidc": {"issuer": "http://login.example.org"}}, "https"),
        ({"oidc": {**OIDC, "scopes": ["profile"]}}, "openid"),
        ({"second_factor": "sometimes"}, "optional"),
    ],
)
def test_settings_that_cannot_be_are_refused(auth: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(auth=auth)


def test_secrets_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    oidc = {**OIDC, "client_secret_file": str(tmp_path / "missing")}
    settings = Settings(data_dir=tmp_path, auth={"sources": ["oidc"], "oidc": oidc})
    with pytest.raises(SetupError, match=r"client_secret_file .*missing cannot be read"):
        make_identity_sources(settings, utc_now)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox on Linux",
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_0) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.0 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 "
            "(KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("curl/8.5.0", "curl"),
        ("<script>alert(1)</script>", "An unknown program"),
        ("", "An unknown program"),
        (None, "An unknown program"),
    ],
)
def test_a_browser_in_words(agent: str | None, words: str) -> None:
    assert describe_browser(agent) == words
