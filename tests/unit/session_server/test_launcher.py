"""Tests of the launcher's preparations before it becomes the single-user server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from aitne.session_server import launcher
from aitne.session_server.launcher import make_workspace_options
from tests.support.mounts import mounted


def test_workspace_of_jupyterlab_is_kept_in_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = str(uuid4())
    monkeypatch.setenv("AITNE_WORKSPACE", name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    below = f"aitne/workspaces/{name}"
    assert make_workspace_options() == [f"--LabApp.workspaces_dir={tmp_path}/.local/share/{below}"]
    monkeypatch.setenv("XDG_DATA_HOME", "/data/ada")
    assert make_workspace_options() == [f"--LabApp.workspaces_dir=/data/ada/{below}"]


@pytest.mark.parametrize("name", [None, "", "../../x", "a/b", "x" * 36])
def test_invalid_workspace_name_keeps_default_folder(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    if name is None:
        monkeypatch.delenv("AITNE_WORKSPACE", raising=False)
    else:
        monkeypatch.setenv("AITNE_WORKSPACE", name)
    assert make_workspace_options() == []


@pytest.mark.parametrize("by_the_platform", [True, False])
def test_environment_without_the_server_says_who_installed_it(
    tmp_path: Path, by_the_platform: bool
) -> None:
    env = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    if by_the_platform:
        (env / ".complete").touch()
    argv = [str(env / "bin" / "python"), "-I", launcher.__file__, "--notebook", str(tmp_path)]
    # A module or the user may have set it for kernels.
    strange = tmp_path / "strange" / "jupyterhub"
    strange.mkdir(parents=True)
    (strange / "__init__.py").write_text("raise SystemExit('the wrong one')")
    variables = {**os.environ, "PYTHONPATH": str(strange.parent)}
    ran = subprocess.run(argv, capture_output=True, text=True, input="", check=False, env=variables)
    last = ran.stderr.splitlines()[-1]
    assert ran.returncode == 1
    missing = "No module named 'jupyterhub'"
    expected = f"The environment of sessions was changed: {missing}"
    assert last == (expected if by_the_platform else f"ModuleNotFoundError: {missing}")


def test_full_home_keeps_its_own_files_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, "before")
    with mounted(tmp_path / "home", "size=64k") as home:
        monkeypatch.setenv("HOME", str(home))
        options = launcher.leave_full_home()
        assert list(home.iterdir()) == []
    (folder,) = temporary.iterdir()
    assert options == [
        "--FileContentsManager.delete_to_trash=False",
        f"--LabApp.workspaces_dir={folder}/workspaces",
    ]
    assert os.environ["JUPYTER_RUNTIME_DIR"] == f"{folder}/runtime"
    assert os.environ["IPYTHONDIR"] == f"{folder}/ipython"
    assert f"No space is left in your home {home}" in capsys.readouterr().err

    monkeypatch.setenv("HOME", str(temporary))
    assert launcher.leave_full_home() == []
