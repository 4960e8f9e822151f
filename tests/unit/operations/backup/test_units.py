"""The systemd units of regular backups."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aitne.operations.backup.backup_units import SERVICE, TIMER, make_backup_units

ROOT = Path(__file__).resolve().parents[4]


def test_handbook_has_the_units() -> None:
    page = ROOT.joinpath("docs", "handbook", "backup.md").read_text()
    units = make_backup_units(
        program=Path("/opt/aitne/bin/aitne"),
        data_dir=Path("/var/lib/aitne"),
        user="aitne",
        config=Path("/etc/aitne/aitne.toml"),
    )
    assert all(text in page for text in units.values())


@pytest.mark.parametrize("user", [None, "daemon"])
def test_units_name_the_platform_and_are_valid(tmp_path: Path, user: str | None) -> None:
    units = make_backup_units(
        program=Path("/bin/true"),
        data_dir=Path("/var/lib/aitne"),
        user=user,
        config=Path("/etc/aitne/aitne.toml"),
    )
    lines = units[SERVICE].splitlines()
    assert "Environment=AITNE_DATA_DIR=/var/lib/aitne AITNE_CONFIG=/etc/aitne/aitne.toml" in lines
    assert "ExecStart=/bin/true admin backup --yes" in lines
    assert ("User=daemon" in lines) is (user is not None)
    for name, text in units.items():
        tmp_path.joinpath(name).write_text(text)
    if shutil.which("systemd-analyze") is None:
        return
    paths = [str(tmp_path / name) for name in (SERVICE, TIMER)]
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "aitne-backup" in line]
    assert complaints == []
