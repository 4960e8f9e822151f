"""Folders and buckets in which backups are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aitne.core.errors import SetupError, Unavailable
from aitne.operations.backup.backup_targets import make_backup_name, make_target

AWS = """#!/bin/sh
printf '%s\\n' "$@" > "$0.arguments"
cat "$4" > "$0.stored" || exit 1
[ ! -e "$0.refuses" ] || { echo 'upload failed: Access Denied' >&2; exit 1; }
"""


def test_oldest_backups_of_the_cluster_are_deleted(tmp_path: Path) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    names = [make_backup_name("gpu", at + timedelta(days=day)) for day in range(4)]
    others = [make_backup_name("gpu-2", at), "aitne-gpu-notes.tar", "photo.jpg"]
    for name in (*names, *others):
        (tmp_path / name).write_text("x")
    assert make_target(str(tmp_path), tmp_path).prune("gpu", 2) == names[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[2:], *others])


def test_existing_backup_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_text("old")
    (tmp_path / "staged").write_text("new")
    with pytest.raises(SetupError, match="exists"):
        make_target(str(tmp_path), tmp_path).store(tmp_path / "staged", "a.tar")
    assert (tmp_path / "a.tar").read_text() == "old"


@pytest.mark.parametrize("address", ["s3://bucket/aitne/", "s3:bucket/aitne"])
def test_bucket_gets_the_backup_by_the_program_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """A stand-in shows the command line; a real service was never used."""
    programs = tmp_path / "bin"
    programs.mkdir()
    aws = programs / "aws"
    aws.write_text(AWS)
    aws.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    staged = tmp_path / "staged"
    staged.write_text("backup")
    target = make_target(address, tmp_path)
    assert target.store(staged, "a.tar") == "s3://bucket/aitne/a.tar"
    arguments = (programs / "aws.arguments").read_text().splitlines()
    assert arguments == ["s3", "cp", "--only-show-errors", str(staged), "s3://bucket/aitne/a.tar"]
    assert (programs / "aws.stored").read_text() == "backup"
    (programs / "aws.refuses").touch()
    with pytest.raises(Unavailable, match=r"s3://bucket/aitne/b.tar: .*Access Denied"):
        target.store(staged, "b.tar")


def test_bucket_without_the_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="Install the AWS CLI"):
        make_target("s3://bucket", tmp_path)
