"""The environment of a release, as an upgrade makes it."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from aitne.operations.upgrade.releases import Releases


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str], *needs: str) -> Path:
    """Write a wheel with these files and requirements; return its path."""
    info = f"{name}-{version}.dist-info"
    facts = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    facts += ["Provides-Extra: server", *(f"Requires-Dist: {each}" for each in needs)]
    kind = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = files | {f"{info}/METADATA": "\n".join(facts) + "\n", f"{info}/WHEEL": kind}
    record = [f"{each},," for each in (*files, f"{info}/RECORD")]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for each, text in files.items():
            made.writestr(each, text)
        made.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return path


@pytest.mark.long
@pytest.mark.parametrize(("constraints", "installed"), [("needed==1.0\n", "1.0"), (None, "2.0")])
def test_dependencies_of_a_release_have_the_versions_of_its_constraints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constraints: str | None, installed: str
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    for version in ("1.0", "2.0"):
        make_wheel(index, "needed", version, {"needed.py": f"VERSION = {version!r}\n"})
    files = {"aitne/__init__.py": '__version__ = "0.2.0"\n'}
    if constraints is not None:
        files["aitne/_data/constraints.txt"] = constraints
    wheel = make_wheel(index, "aitne", "0.2.0", files, "needed>=1; extra == 'server'")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    releases = Releases(tmp_path / "root")
    (tmp_path / "root").mkdir()
    releases.install("0.2.0", f"aitne[server] @ {wheel.as_uri()}", lambda line: None)
    python = releases.folder("0.2.0") / "bin" / "python"
    shown = subprocess.run(
        [python, "-c", "import needed; print(needed.VERSION)"], capture_output=True
    )
    assert shown.stdout.decode().strip() == installed
