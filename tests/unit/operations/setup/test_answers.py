"""Answers of an administrator: each wrong one is a sentence that names the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import InvalidInput
from aitne.operations.setup.answers import read_answers, validate_answers
from aitne.operations.setup.rendering import render_files
from tests.unit.operations.setup.conftest import site

NO_FILES = {"portal": None, "portal_key": None, "sessions": None, "sessions_key": None}


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"scheduler": "pbs"}, "scheduler", "no such value"),
        ({"public_url": "aitne.example.org"}, "public_url", "must be http:// or https://"),
        ({"public_url": "https://a.org/x"}, "public_url", "must be http:// or https://"),
        ({"public_url": "https://a.org;\nreturn 200"}, "public_url", "must be http:// or https://"),
        ({"sessions_url": "https://a.*.org"}, "sessions_url", "a host for each user"),
        ({"sessions_url": "https://aitne.example.org"}, "sessions_url", "their own origin"),
        ({"sessions_url": "https://*.s.aitne.example.org"}, "sessions_url", "below"),
        ({"sessions_url": "http://*.aitne-sessions.org"}, "sessions_url", "like public_url"),
        ({"port": "x"}, "port", "whole number"),
        ({"port": 80}, "port", "too small"),
        ({"bind": "localhost; rm"}, "bind", "must be an IP address"),
        ({"create_account": "yes"}, "create_account", "true or false"),
        ({"account": "Aitne User"}, "account", "not in the right form"),
        ({"data_dir": "var/lib"}, "data_dir", "absolute path"),
        ({"programs": "/opt/my programs"}, "programs", "letters, digits"),
        ({"data_dir": "/srv/../etc"}, "data_dir", "absolute path"),
        ({"database": "mysql://x"}, "database", "must be postgresql://"),
        ({"colour": "blue"}, "colour", "not a known field"),
        ({"slurm": {"software": "/srv"}}, "slurm.software", "not a known field"),
        ({"slurm": {"jwt_key": "/etc/jwt.key"}}, "slurm.jwt_key", "slurm.rest_url"),
        ({"scheduler": "local", "slurm": {"conf": "/etc/s"}}, "slurm", "only for scheduler"),
        ({"scheduler": "local", "broker": {"pam_service": "x"}}, "broker", "only for scheduler"),
        ({"proxy": {"server": "other"}}, "certificates.source", "has the certificates"),
        ({"limits": {"max_nodes": 0}}, "limits.max_nodes", "too small"),
        ({"accounts": {"min_uid": 9, "max_uid": 8}}, "accounts.max_uid", "below"),
        ({"proxy": {"server": "apache"}}, "proxy.server", "no such value"),
        ({"proxy": {"group": "a b"}}, "proxy.group", "not in the right form"),
        ({"public_url": "https://a.org:8443"}, "proxy.server", "without a port"),
        ({"certificates": {"source": "acme"}}, "certificates.source", "for the proxy caddy"),
        ({"certificates": {"source": "none"}}, "certificates.source", "https needs one"),
        (
            {"certificates": {"source": "platform", **NO_FILES}},
            "certificates.source",
            "without a reverse proxy",
        ),
        ({"certificates": NO_FILES}, "certificates.portal", "is required"),
        ({"certificates": {"sessions_key": None}}, "certificates.sessions_key", "is required"),
        ({"certificates": {"email": "a@b.org"}}, "certificates.email", "is not used"),
        ({"certificates": {"portal": "/x;y"}}, "certificates.portal", "letters, digits"),
    ],
)
def test_wrong_answer_is_a_sentence_about_its_field(
    changes: dict[str, Any], field: str, sentence: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        validate_answers(site(**changes))

    messages = {problem.field: problem.message for problem in refused.value.problems}
    assert sentence in messages[field]
    assert f"{field} {messages[field]}" in refused.value.message


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"proxy_socket": "/run/other.sock"}, "proxy_socket"),
        ({"broker": {"socket": "/run/other.sock"}}, "broker.socket"),
        ({"scheduler": "local", "accounts": {"mode": "shared"}}, "accounts.mode"),
    ],
)
def test_setting_that_follows_from_another_answer_is_refused(
    settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        render_files(validate_answers(site(**settings)))

    assert [problem.field for problem in refused.value.problems] == [field]


def test_password_of_the_database_is_in_no_message() -> None:
    with pytest.raises(InvalidInput) as refused:
        validate_answers(site(database="mysql://aitne:hidden@db/aitne"))

    assert "hidden" not in refused.value.message + str(refused.value.problems)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.toml", "scheduler = ", "are not TOML"),
        ("a.yaml", "scheduler: [", "are not YAML"),
        ("a.yml", "- slurm\n", "have no fields"),
        ("a.toml", "#" * (1 << 20) + "#", "larger than 1 MiB"),
        ("a.toml", None, "cannot be read"),
    ],
)
def test_file_that_is_no_answers_is_refused(
    tmp_path: Path, name: str, text: str | None, sentence: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)

    with pytest.raises(InvalidInput, match=sentence):
        read_answers(file)


def test_answers_in_toml_and_yaml_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('scheduler = "local"\n[proxy]\nserver = "none"\n')
    (tmp_path / "a.yaml").write_text("scheduler: local\nproxy: {server: none}\n")

    assert read_answers(tmp_path / "a.toml") == read_answers(tmp_path / "a.yaml")
