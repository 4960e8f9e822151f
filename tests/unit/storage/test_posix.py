"""Folders of the kernel's own file systems: mounted or not, space, quotas, and looks that hang."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.path_facts import TimeoutExecutor, read_areas, read_paths
from aitne.adapters.storage._mounts import Mounts
from aitne.adapters.storage._tools import StorageTools
from aitne.adapters.storage.posix import PosixStorage, parse_quota
from aitne.adapters.user_folder_operations import OwnUserFolders
from aitne.core.errors import NotAllowed
from aitne.core.models.storage_area import Area, AreaFacts, AreaKind, Quota
from aitne.core.storage.areas import AreaOwner, list_areas
from aitne.core.storage.storage_and_container_settings import StorageSettings
from tests.support.mounts import hanging, mounted

QUOTA = """\
Disk quotas for user alice (uid 1001):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
     /dev/loop0   1600*    1000    2000 1795000000       5      10      20       0
"""


def area(path: Path, **changes: object) -> Area:
    return Area(name="scratch", kind=AreaKind.USER, path=str(path)).model_copy(update=changes)


def look(path: Path, **changes: object) -> AreaFacts:
    return PosixStorage().read_area(area(path, **changes), user="alice")


def test_space_is_that_of_the_file_system(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=4m") as disk:
        (disk / "data").write_bytes(b"x" * (1 << 20))
        facts = look(disk)
        assert (facts.available, facts.writable, facts.file_system) == (True, True, "tmpfs")
        assert facts.total_bytes == 4 << 20
        assert facts.free_bytes == 3 << 20
        assert facts.problem is None


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert look(tmp_path / "none").problem == f"There is no folder {tmp_path / 'none'}."
    assert look(tmp_path / "file").problem == f"{tmp_path / 'file'} is not a folder."
    assert "Not a directory" in (look(tmp_path / "file" / "x").problem or "")


def test_a_mount_that_the_site_expects_and_is_not_there(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "alice").mkdir(parents=True)
    facts = look(disk / "alice", mount=str(disk))
    assert not facts.available, "the folder on the disk below is another one"
    assert facts.problem == f"No file system is mounted at {disk} on this machine."
    with mounted(disk):
        (disk / "alice").mkdir()
        assert look(disk / "alice", mount=str(disk)).available


@pytest.mark.parametrize(
    ("options", "missing"), [("defaults", True), ("rw,noauto", False), ("", False)]
)
def test_fstab_says_what_should_be_mounted(tmp_path: Path, options: str, missing: bool) -> None:
    disk = tmp_path / "a disk"
    (disk / "alice").mkdir(parents=True)
    fstab = tmp_path / "fstab"
    point = str(disk).replace(" ", "\\040")
    fstab.write_text(f"# comment\n/dev/sda1 / ext4 defaults 0 1\nserver:/x {point} nfs {options}\n")
    storage = PosixStorage(Mounts(fstab=fstab))
    facts = storage.read_area(area(disk / "alice"), user="alice")
    assert facts.available is not missing
    # An automounter mounts a file system at the first access.
    mountinfo = tmp_path / "mountinfo"
    for kind, there in (("autofs", not missing), ("nfs4", True)):
        mountinfo.write_text(f"1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / {point} rw - {kind} d rw\n")
        storage = PosixStorage(Mounts(mountinfo, fstab))
        assert storage.read_area(area(disk / "alice"), user="alice").available is there


def test_quota_is_read_from_the_tool(tmp_path: Path) -> None:
    tool, asked = tmp_path / "quota", tmp_path / "asked"
    tool.write_text(f"#!/bin/sh\necho \"$*\" >> {asked}\ncat <<'END'\n{QUOTA}END\nexit 1\n")
    tool.chmod(0o755)
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text("1 0 8:1 / / rw - ext4 /dev/loop0 rw\n")
    storage = PosixStorage(Mounts(mountinfo), StorageTools(search=f"{tmp_path}:/usr/bin:/bin"))
    facts = storage.read_area(area(tmp_path), user="root")
    assert facts.user_quota == Quota(
        used_bytes=1600 << 10, limit_bytes=2000 << 10, used_files=5, limit_files=20
    )
    # By number: quota(1) would take an account's name of digits for a uid.
    assert asked.read_text() == "-w -p -v --filesystem=/ -u -- 0\n"
    assert facts.problem is None
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    slow = StorageTools(search=f"{tmp_path}:/usr/bin:/bin", timeout_s=0.3)
    facts = PosixStorage(Mounts(mountinfo), slow).read_area(area(tmp_path), user="alice")
    assert (facts.available, facts.user_quota) == (True, None)


def test_the_quota_of_a_projects_group_is_read(tmp_path: Path) -> None:
    tool = tmp_path / "quota"
    line = "echo '  /dev/loop0 5 0 10 0 7 0 8 0'"
    tool.write_text(f'#!/bin/sh\ncase " $* " in *" -g -- 0 "*) {line};; *) echo none; esac\n')
    tool.chmod(0o755)
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text("1 0 8:1 / / rw - ext4 /dev/loop0 rw\n")
    storage = PosixStorage(Mounts(mountinfo), StorageTools(search=f"{tmp_path}:/usr/bin:/bin"))
    for project, quota in (
        ("root", Quota(used_bytes=5120, limit_bytes=10240, used_files=7, limit_files=8)),
        ("no-such-group", None),
    ):
        wanted = area(tmp_path, kind=AreaKind.PROJECT, project=project)
        facts = storage.read_area(wanted, user="alice")
        assert (facts.user_quota, facts.project_quota) == (None, quota)


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("Disk quotas for user alice (uid 1001): none\n", None),
        ("quota: Cannot open quotafile\n", None),
        (
            "  server:/home 5 0 0 0 7* 6 0 0",
            Quota(used_bytes=5120, limit_bytes=None, used_files=7, limit_files=6),
        ),
        (
            "  /dev/mapper/vg-a very long name 5 10 0 0 7 0 0 0",
            Quota(used_bytes=5120, limit_bytes=10240, used_files=7, limit_files=None),
        ),
    ],
)
def test_quota_lines(text: str, quota: Quota | None) -> None:
    assert parse_quota(text) == quota


@given(text=st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_quota(text)


def test_a_silent_file_system_is_given_up_and_asked_once(tmp_path: Path) -> None:
    patience = TimeoutExecutor(0.3)
    storages = {"posix": PosixStorage()}
    with hanging(tmp_path / "silent") as silent:
        (tmp_path / "other").mkdir()
        areas = [area(silent / "alice"), area(tmp_path / "other")]
        hung, other = read_areas(patience, storages, areas, "alice")
        assert hung.problem == f"The file system of {silent / 'alice'} does not answer."
        assert other.available
        [path] = read_paths(patience, [str(silent)])
        assert path.problem == "its file system does not answer"
    [path] = read_paths(patience, [str(tmp_path / "other")])
    assert path.kind == "folder"


def test_hanging_path_is_not_read_again() -> None:
    patience, release, begun = TimeoutExecutor(0.05), Event(), []

    def wait() -> int:
        begun.append(1)
        release.wait(10)
        return 1

    assert patience.gather([("/a", wait), ("/a", wait), ("/b", lambda: 2)]) == [None, None, 2]
    assert patience.gather([("/a", wait)]) == [None]
    assert len(begun) == 1
    release.set()


def test_exception_of_a_task_is_raised_after_the_other_tasks() -> None:
    ended = []

    def fail() -> int:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        TimeoutExecutor(5).gather([("/a", fail), ("/a", lambda: ended.append(1) or 1)])
    assert ended == [1]


def test_working_copy_with_damaged_head_is_a_folder_without_commit(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(b"ref: refs/heads/\0main")
    [path] = read_paths(TimeoutExecutor(5), [str(tmp_path)])
    assert (path.kind, path.commit, path.problem) == ("folder", None, None)


async def test_the_platforms_own_account_looks_and_makes(tmp_path: Path) -> None:
    own = AreaOwner(user="svc", uid=os.geteuid(), home=os.path.expanduser("~"))
    settings = StorageSettings.model_validate(
        {
            "areas": [
                {"name": "scratch", "path": f"{tmp_path}/scratch/{{uid}}"},
                {"name": "x", "path": f"{tmp_path}/x/{{uid}}", "storage": "magic"},
            ]
        }
    )
    places = OwnUserFolders(settings, {"posix": PosixStorage()})
    _, scratch, odd = list_areas(settings, own)
    [said] = await places.create_folders(None, [scratch])
    assert f"the folder {tmp_path / 'scratch'} does not exist" in said
    (tmp_path / "scratch").mkdir(mode=0o755)
    assert await places.create_folders(None, [scratch]) == []
    found, magic = await places.read_areas(None, [scratch, odd])
    assert found.available
    assert "storage adapter magic is not in use here (posix)" in (magic.problem or "")
    assert Path(scratch.path).stat().st_mode & 0o777 == 0o700
    relative, odd_name = await places.read_paths(None, ["relative", "/\ud800"])
    assert relative.problem == "it is not an absolute path"
    assert odd_name.problem == "no file can have such a name"
    [facts] = await places.read_paths(None, [f"{tmp_path}/none"])
    assert facts.problem == os.strerror(errno.ENOENT)
    with pytest.raises(NotAllowed, match="it has no broker"):
        await places.read_paths("alice", ["/"])
