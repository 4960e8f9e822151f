"""Names that the shell completes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aitne.cli.main import main
from tests.support.fake_api import CannedAnswer, FakeApi, Refused, job, page, problem

Complete = Callable[[str], list[str]]
OTHER = "aa7a2e00-0000-4000-8000-000000000002"
OLDER = "cc7a2e00-0000-4000-8000-000000000003"


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Complete:
    """Return a function that presses TAB and returns the words that are offered."""

    def tab(typed: str) -> list[str]:
        monkeypatch.setenv("_AITNE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
        with pytest.raises(SystemExit):
            main([])
        out, err = capfd.readouterr()
        assert err == ""
        return out.split()

    return tab


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("aitne logs ", ["digits", "aa7a2e00"]),
        ("aitne logs di", ["digits"]),
        ("aitne show 3b7", ["3b7a1f00"]),
        ("aitne stop ", ["digits", "aa7a2e00"]),
        ("aitne cancel ", ["digits", "aa7a2e00"]),
        ("aitne open dig", ["digits"]),
        ("aitne session start ", ["batch", "jupyterlab"]),
        ("aitne project show v", ["vision"]),
    ],
)
def test_names_of_platform_are_completed(
    api: FakeApi,
    complete: Complete,
    typed: str,
    offered: list[str],
) -> None:
    api.on("GET", "/me", {"user": {"name": "ada"}, "projects": ["ada", "vision"]})
    api.on("GET", "/jobs", page(job(), job(id=OLDER), job(id=OTHER, name="python train.py; rm x")))
    templates = [{"name": name, "title": "T"} for name in ("batch", "jupyterlab")]
    api.on("GET", "/templates", {"items": templates})
    assert complete(typed) == offered
    assert all(request.query.get("owner") == ["ada"] for request in api.sent("GET", "/jobs"))


@pytest.mark.parametrize("answer", [Refused, problem(401, "not_authenticated", "No.")])
def test_completion_offers_nothing_without_an_answer(
    api: FakeApi, complete: Complete, answer: CannedAnswer
) -> None:
    api.on("GET", "/me", answer)
    assert complete("aitne logs ") == []
