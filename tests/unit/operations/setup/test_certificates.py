"""Certificates that the answers name: those that browsers would refuse are failures, before anything is written."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from aitne.operations.setup.answers import validate_answers
from aitne.operations.setup.network_and_database_inspection import _check_certificates
from tests.support.certificates import Authority
from tests.unit.operations.setup.conftest import site

PORTAL, SESSIONS = "aitne.example.org", "aitne-sessions.org"


def test_expired_and_wrong_certificates_are_failures_with_a_remedy(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    def found(portal: tuple[Path, Path], sessions: tuple[Path, Path]) -> dict[str, tuple[str, str]]:
        names = ("portal", "portal_key", "sessions", "sessions_key")
        files = dict(zip(names, map(str, (*portal, *sessions)), strict=True))
        results = [*_check_certificates(validate_answers(site(certificates=files)))]
        assert all(bool(each.remedy) == (each.state == "failed") for each in results)
        return {each.name: (each.state, each.message) for each in results}

    expired = authority.issue("expired", PORTAL, ended_ago=timedelta(days=1))
    good = authority.issue("good", SESSIONS, f"*.{SESSIONS}")
    checks = found(expired, (good[0], expired[1]))
    assert checks["certificates.portal"][0] == checks["certificates.sessions"][0] == "failed"
    assert "expired on" in checks["certificates.portal"][1]
    assert "is not the key of" in checks["certificates.sessions"][1]

    checks = found(authority.issue("portal", PORTAL), authority.issue("narrow", SESSIONS))
    assert checks["certificates.portal"][0] == "ok"
    assert f"ask for *.{SESSIONS}" in checks["certificates.sessions"][1]
