"""Environments that cannot be created, and environments that jobs have changed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.supervisor import software_environments
from aitne.supervisor.environment_integrity import list_changed_packages


def test_pip_error_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    steps: list[str] = []
    with pytest.raises(SetupError) as caught:
        software_environments.ensure_environments(steps.append, ["hub"])
    assert "No matching distribution found for" in caught.value.message
    assert "AITNE_HUB_ENV" in caught.value.message
    assert steps[1] == "Packages come from the indexes in pip's settings."
    assert steps[2] == "hub environment: creating (0 s)"
    assert not software_environments.is_complete("hub")


def make_wheel(folder: Path, name: str, version: str) -> None:
    """Write a wheel with one module, whose variable ``version`` is the version."""
    metadata = f"{name}-{version}.dist-info"
    module = f"version = {version!r}\n"
    files = {
        f"{name}.py": module,
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,{len(text)}\n" for path, text in files.items())
    record += f"{metadata}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in (files | {f"{metadata}/RECORD": record}).items():
            wheel.writestr(path, text)


def test_packages_that_a_job_has_changed_are_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, wheels = tmp_path / "locks", tmp_path / "wheels"
    locks.mkdir()
    wheels.mkdir()
    for name, version in (("jupyterlab", "4.5"), ("traitlets", "5.1"), ("traitlets", "4.0")):
        make_wheel(wheels, name, version)
    make_wheel(wheels, "users_own", "1.0")
    (locks / "session.txt").write_text("jupyterlab==4.5\nTraitlets==5.1\n")
    monkeypatch.setattr(software_environments, "LOCKS", locks)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    software_environments.ensure_environments(lambda step: None, ["session"])
    folder = software_environments.session_env_dir()
    steps: list[str] = []
    software_environments.ensure_environments(steps.append, ["session"])
    assert steps == []

    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, "uninstall", "-q", "-y", "jupyterlab"], check=True)
    subprocess.run([*pip, "install", "-q", "traitlets==4.0", "users_own"], check=True)
    lock = locks / "session.txt"
    assert list_changed_packages(folder, lock) == ["jupyterlab==4.5", "Traitlets==5.1"]
    monkeypatch.setenv("PIP_FIND_LINKS", str(locks))
    software_environments.ensure_environments(steps.append, ["session"])
    assert "What needs these packages may fail" in steps[-1]
    assert list_changed_packages(folder, lock) == ["jupyterlab==4.5", "Traitlets==5.1"]
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    steps.clear()
    software_environments.ensure_environments(steps.append, ["session"])
    assert "jupyterlab==4.5, Traitlets==5.1" in steps[0]
    assert list_changed_packages(folder, lock, files=True) == []
    program = (
        "import jupyterlab, traitlets, users_own; print(jupyterlab.version, traitlets.version)"
    )
    ran = subprocess.run(
        [folder / "bin" / "python", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["4.5", "5.1"]

    module = next(folder.glob("lib/python*/site-packages/jupyterlab.py"))
    module.write_text("version = None  # edited\n")
    assert list_changed_packages(folder, lock) == []
    assert list_changed_packages(folder, lock, files=True) == ["jupyterlab==4.5"]
    module.unlink()
    assert list_changed_packages(folder, lock, files=True) == ["jupyterlab==4.5"]
