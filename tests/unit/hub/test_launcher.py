"""Tests of the launcher's preparations before it becomes the single-user server."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from aitne.hub.launcher import workspace


def test_workspace_of_jupyterlab_is_kept_in_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = str(uuid4())
    monkeypatch.setenv("AITNE_WORKSPACE", name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    below = f"aitne/workspaces/{name}"
    assert workspace() == [f"--LabApp.workspaces_dir={tmp_path}/.local/share/{below}"]
    monkeypatch.setenv("XDG_DATA_HOME", "/data/ada")
    assert workspace() == [f"--LabApp.workspaces_dir=/data/ada/{below}"]


@pytest.mark.parametrize("name", [None, "", "../../x", "a/b", "x" * 36])
def test_invalid_workspace_name_keeps_default_folder(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    if name is None:
        monkeypatch.delenv("AITNE_WORKSPACE", raising=False)
    else:
        monkeypatch.setenv("AITNE_WORKSPACE", name)
    assert workspace() == []
