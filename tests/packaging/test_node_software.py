"""Tests of the software of the nodes in a folder that several platforms share."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from aitne.adapters.node_software_folder import SoftwareFolder, own_software, write_own_software
from aitne.core.settings import Settings
from tests.support import realtime


def test_two_platforms_may_write_it_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = Path.mkdir

    def after_another(self: Path, mode: int = 0o777, **options: bool) -> None:
        make(self, parents=True, exist_ok=True)
        make(self, mode, **options)

    monkeypatch.setattr(Path, "mkdir", after_another)
    write_own_software()
    assert Path(own_software().spawner[-1]).is_file()


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    root = tmp_path / "software"
    settings = Settings(data_dir=tmp_path, scheduler="slurm", slurm={"software_dir": str(root)})
    old = os.umask(0o077)
    try:
        folder = SoftwareFolder(settings)
        folder.write_files()
    finally:
        os.umask(old)
    assert folder.has_files()
    assert list(root.glob(".*")) == []
    return folder.notebook


def _run(notebook: Path, *, path: str = "") -> str:
    """Run a module with the folder's packages; return where it and aitne were imported from."""
    (notebook.parent / "shown.py").write_text(
        "import aitne, aitne.client, sys; print(sys.argv, aitne.__file__, aitne.client.__cached__)"
    )
    argv = [sys.executable, "-S", str(notebook), "shown", "one"]
    env = {"PYTHONPATH": f"{path}:{notebook.parent}"}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout


def test_packages_for_notebooks_are_readable_for_all_accounts_and_compiled(notebook: Path) -> None:
    modes = {path.stat().st_mode & 0o777 for path in notebook.rglob("*") if path.is_file()}
    assert modes == {0o644}
    assert {path.stat().st_mode & 0o777 for path in notebook.rglob("*") if path.is_dir()} == {0o755}
    printed = _run(notebook)
    assert f"{notebook}/aitne/__init__.py" in printed
    assert "'one']" in printed
    assert Path(printed.split()[-1]).is_file()


def test_installed_aitne_is_preferred_to_the_packages_for_notebooks(
    notebook: Path, tmp_path: Path
) -> None:
    installed = tmp_path / "site" / "aitne"
    (installed / "client").mkdir(parents=True)
    for package in (installed, installed / "client"):
        (package / "__init__.py").touch()
    assert f"{installed}/__init__.py" in _run(notebook, path=str(installed.parent))


def test_spawner_archive_orders_hosts_without_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_own_software()
    archive = own_software().spawner[-1]
    topology = tmp_path / "topology.conf"
    topology.write_text("SwitchName=leaf0 Nodes=a,b\nSwitchName=leaf0 Nodes=c,d\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", archive, "-H", "a:1,b:1,c:1,d:1", "true"],
        env={"AITNE_TOPOLOGY": str(topology), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"{topology}, line 2: the switch leaf0 is defined again" in done.stderr
    assert Path(archive).stat().st_size < 400_000


def test_archives_have_bytecode_and_run_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_own_software()
    archive = Path(own_software().spawner[-1])
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(archive) as ours, zipfile.ZipFile(other, "w") as theirs:
        for name in ours.namelist():
            content = ours.read(name)
            # Bytecode of another version of Python begins with another number.
            theirs.writestr(name, b"\0" * 4 + content[4:] if name.endswith("c") else content)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import aitne_train.launcher.main as module; "
        "print(module.__spec__.origin)"
    )
    for path, name in ((archive, "main.pyc"), (other, "main.py")):
        shown = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, str(path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert shown.strip().endswith(name)


@realtime.RANKS
def test_spawner_archive_runs_scripts_for_horovod_without_an_installed_aitne(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_own_software()
    archive, notebook = own_software().spawner[-1], own_software().notebook
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nimport horovod.torch as hvd\nhvd.init()\n"
        "total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item()\n"
        "print(hvd.__file__, hvd.size(), total)\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-S", archive, "-np", "2", "--horovod"),
            *(sys.executable, "-S", str(script)),
        ],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": sysconfig.get_path("purelib")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{notebook}/aitne_train/__init__.py 2 3.0\n" * 2, done.stderr
