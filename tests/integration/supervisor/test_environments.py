"""An environment that cannot be created gives a reason and is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.supervisor import environments


def test_pip_error_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    steps: list[str] = []
    with pytest.raises(SetupError) as caught:
        environments.ensure(steps.append, ["hub"])
    assert "No matching distribution found for" in caught.value.message
    assert "AITNE_HUB_ENV" in caught.value.message
    assert steps[1] == "Packages come from the indexes in pip's settings."
    assert steps[2] == "hub environment: creating (0 s)"
    assert not environments.is_complete("hub")
