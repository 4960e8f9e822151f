"""What the nodes run, written where several platforms look for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aitne.adapters.node_software import own_software, write_own_software


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
    assert Path(archive).stat().st_size < 100_000
