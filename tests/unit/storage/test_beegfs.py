"""BeeGFS through executables that print what its tools print, fail and hang."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.storage._beegfs_parser import (
    parse_count,
    parse_quota_7,
    parse_quota_8,
    parse_size,
    parse_striping,
    parse_targets_7,
    parse_targets_8,
    select_quota,
)
from aitne.adapters.storage._mounts import Mounts
from aitne.adapters.storage._tools import StorageTools
from aitne.adapters.storage.beegfs import BeegfsStorage
from aitne.core.models.storage_area import Area, AreaFacts, AreaKind, Quota, StorageTarget, Striping

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "beegfs"
GIB = 1 << 30


def asset(name: str) -> str:
    return (ASSETS / name).read_text()


class Site:
    """A folder that ``mountinfo`` calls BeeGFS's, and the tools that are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mnt"
        self.folder.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.asked = folder / "asked"
        self.mountinfo = folder / "mountinfo"
        self.fstab = folder / "fstab"
        self.fstab.touch()
        self.mount()

    def mount(self, kind: str = "beegfs") -> None:
        self.mountinfo.write_text(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
            f"90 1 0:50 / {self.folder} rw,relatime - {kind} beegfs_nodev "
            "rw,cfgFile=/etc/beegfs/scratch.conf,_netdev\n"
        )

    def install(self, program: str, answers: Mapping[str, str], otherwise: str = "exit 3") -> None:
        """Install a program; ``answers`` maps words of its arguments to shell code."""
        cases = "\n".join(f'  *" {word} "*) {answer};;' for word, answer in answers.items())
        tool = self.bin / program
        tool.write_text(
            f'#!/bin/sh\necho "$*" >> {self.asked}\ncase " $* " in\n{cases}\n'
            f"  *) {otherwise};;\nesac\n"
        )
        tool.chmod(0o755)

    def look(self, project: str | None = None, timeout_s: float = 5.0) -> AreaFacts:
        kind = AreaKind.USER if project is None else AreaKind.PROJECT
        area = Area(
            name="scratch", kind=kind, path=str(self.folder), adapter="beegfs", project=project
        )
        tools = StorageTools(search=f"{self.bin}:/usr/bin:/bin", timeout_s=timeout_s)
        return BeegfsStorage(Mounts(self.mountinfo, self.fstab), tools).read_area(
            area, user="alice"
        )

    def commands(self) -> list[str]:
        return sorted(self.asked.read_text().splitlines())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def shown(name: str) -> str:
    return f"cat '{ASSETS / name}'"


OLD = {
    "--uid": shown("7.x/getquota-uid.csv.txt"),
    "--getentryinfo": shown("7.x/getentryinfo-directory.txt"),
    "--listtargets": shown("7.x/listtargets-state-spaceinfo.txt"),
}
NEW = {
    "list-usage": shown("8.x/quota-list-usage.ndjson.txt"),
    "entry": shown("8.x/entry-info-retro-directory.txt"),
    "target": shown("8.x/target-list-capacity.json"),
}
ALICE_7 = Quota(
    used_bytes=51046633472, limit_bytes=107374182400, used_files=201276, limit_files=1000000
)


def test_7_tells_quota_striping_and_targets(site: Site) -> None:
    site.install("beegfs-ctl", OLD)
    facts = site.look()
    assert (facts.available, facts.file_system, facts.problem) == (True, "beegfs", None)
    assert facts.user_quota == ALICE_7
    assert facts.striping == Striping(
        pattern="RAID0", chunk_bytes=512 << 10, targets=4, pool="Default"
    )
    assert [(each.name, each.state) for each in facts.targets] == [
        ("21", "Offline/Good"),
        ("11", "Offline/Good"),
    ]
    assert facts.targets[0].free_bytes == round(531.7 * GIB)
    assert facts.total_bytes is not None
    # --mount would make --getquota of 7.4.7 fail; the mount itself says which configuration it has.
    assert site.commands() == [
        f"--cfgFile=/etc/beegfs/scratch.conf --getentryinfo {site.folder}",
        "--cfgFile=/etc/beegfs/scratch.conf --getquota --csv --uid alice",
        "--cfgFile=/etc/beegfs/scratch.conf --listtargets --nodetype=storage --state --spaceinfo",
    ]


def test_7_tells_the_quota_of_a_projects_group(site: Site) -> None:
    group = "printf 'Quota information for storage pool Default (ID: 1):\\n\\n"
    group += "name,id,size,hard,files,hard\\nvision,9,1024,0,3,unlimited\\n'"
    site.install("beegfs-ctl", {"--gid vision": group, **OLD})
    assert site.look("vision").project_quota == Quota(
        used_bytes=1024, limit_bytes=None, used_files=3, limit_files=None
    )


def test_8_tells_quota_striping_and_targets(site: Site) -> None:
    site.install("beegfs", NEW)
    site.install("beegfs-ctl", {}, otherwise="exit 1")
    facts = site.look()
    assert facts.problem is None
    assert facts.user_quota == Quota(
        used_bytes=round(190.02 * GIB), limit_bytes=None, used_files=836_440, limit_files=None
    )
    assert facts.striping == Striping(
        pattern="RAID0", chunk_bytes=1 << 20, targets=4, pool="default"
    )
    assert facts.targets == (
        StorageTarget(
            name="target_storage_101",
            state="unknown/unknown",
            total_bytes=round(928.9 * GIB),
            free_bytes=round(893.1 * GIB),
        ),
    )
    assert "quota list-usage --uids current --gids current --raw --output ndjson" in site.commands()


def test_failed_quota_command_is_reported_as_unknown(site: Site) -> None:
    failing = shown("7.x/getquota-mount-7.4.7.stderr.txt") + " >&2; exit 1"
    site.install("beegfs-ctl", {**OLD, "--uid": failing})
    facts = site.look()
    assert (facts.available, facts.user_quota) == (True, None)
    assert facts.striping is not None
    assert facts.problem == (
        f"BeeGFS did not report all facts of {site.folder}: beegfs-ctl failed: Unable to resolve given "
        "name: --connTCPRecvBufSize."
    )


def test_hanging_quota_command_is_ended_and_reported(site: Site) -> None:
    site.install("beegfs-ctl", {**OLD, "--uid": "exec sleep 60"})
    facts = site.look(timeout_s=0.5)
    assert facts.user_quota is None
    assert facts.problem is not None
    assert "beegfs-ctl did not answer within 0.5 s" in facts.problem


@pytest.mark.parametrize("printed", ["", "Segmentation fault", "[", "{}\n[1]\nnull", "a,b,c,d,e,f"])
def test_nonsense_is_unknown(site: Site, printed: str) -> None:
    site.install("beegfs", {}, otherwise=f"printf '%s\\n' '{printed}'")
    facts = site.look()
    assert facts.available
    assert (facts.user_quota, facts.striping, facts.targets) == (None, None, ())


def test_without_tools_the_rest_is_told(site: Site) -> None:
    facts = site.look()
    assert facts.available
    assert facts.total_bytes is not None
    assert "neither beegfs (8.x) nor beegfs-ctl (7.x) is installed here" in (facts.problem or "")


def test_a_folder_of_another_file_system_is_not_there(site: Site) -> None:
    site.install("beegfs-ctl", OLD)
    site.mount("ext4")
    facts = site.look()
    assert not facts.available
    assert "lies on ext4 and not on BeeGFS" in (facts.problem or "")


def test_the_folders_own_pool_counts() -> None:
    text = asset("7.x/getquota-uid-two-pools.txt")
    lines = [line.replace("||", ",").replace("|", ",") for line in text.splitlines()]
    quotas = parse_quota_7("\n".join(lines), "user")
    assert [each.pool for each in quotas] == ["scratch", "home"]
    home = select_quota(quotas, "user", quotas[0].name, "home")
    assert home == Quota(
        used_bytes=round(3.44 * GIB), limit_bytes=8 * GIB, used_files=48433, limit_files=1000000
    )
    assert select_quota(quotas, "user", quotas[0].name, None) is None, (
        "which of the two is not known"
    )
    assert select_quota(quotas, "group", quotas[0].name, "home") is None


def test_a_files_entry_is_read_too() -> None:
    assert parse_striping(asset("7.x/getentryinfo-file.txt")) == Striping(
        pattern="RAID0", chunk_bytes=512 << 10, targets=2, pool=None
    )


def test_later_columns_of_8_are_read() -> None:
    row = {
        "alias": "t1",
        "on_node": "s1",
        "reachability": "Online",
        "consistency": "Needs resync",
        "space": "997409685504",
        "sfree": "959004991488",
    }
    assert parse_targets_8(json.dumps([row])) == [
        StorageTarget(
            name="t1",
            state="Online/Needs resync",
            total_bytes=997409685504,
            free_bytes=959004991488,
        )
    ]
    raw = '{"name":"a","type":"user","pool":"p","space":"5/-1","inode":"?/9223372036854775807"}'
    [one] = parse_quota_8(raw)
    assert one.quota == Quota(used_bytes=5, limit_bytes=None, used_files=None, limit_files=None)


def test_targets_without_space_are_passed_over() -> None:
    assert parse_targets_7(asset("7.x/listtargets-state.txt")) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 Byte", 0),
        ("601.03 GiB", round(601.03 * GIB)),
        ("1024.00 GiB", 1024 * GIB),
        ("512k", 512 << 10),
        ("4M", 4 << 20),
        ("2.5TiB", 5 << 39),
        ("unlimited", None),
        ("∞", None),
        ("?", None),
        ("-", None),
        ("-1", None),
        ("", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@given(text=st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    for value in (parse_size(text), parse_count(text)):
        assert value is None or value >= 0
    parse_striping(text)
    parse_quota_7(text, "user")
    parse_quota_8(text)
    parse_targets_7(text)
    parse_targets_8(text)


@given(value=st.integers(0, 1 << 60))
def test_plain_numbers_are_exact(value: int) -> None:
    assert parse_size(str(value)) == value == parse_count(str(value))
