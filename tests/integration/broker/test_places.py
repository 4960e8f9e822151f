"""Storage areas are read and created as their account, whatever other users put in their place."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from aitne.adapters.unix_account_mapping import permitted_user
from aitne.adapters.user_folder_operations import BrokerUserFolders
from aitne.core.broker.storage_area_verbs import MAX_AREAS
from aitne.core.errors import InvalidInput, NotAllowed
from aitne.core.models.storage_area import Area, AreaFacts
from aitne.core.storage.areas import AreaOwner, list_areas
from aitne.core.storage.storage_and_container_settings import StorageSettings
from tests.support.broker import REPOSITORY, BrokerBench
from tests.support.mounts import hanging, mounted
from tests.support.waiting import eventually

PROJECT = f"aitne-project-{os.getpid()}"


@dataclass
class Site:
    """A broker whose settings have areas, and a platform that has the same."""

    bench: BrokerBench
    places: BrokerUserFolders
    settings: StorageSettings

    def path(self, *names: str) -> Path:
        return self.bench.root.joinpath(*names)

    def account(self, user: str) -> str:
        return self.bench.users[user]

    def area(self, user: str, name: str, project: str | None = None) -> Area:
        account = permitted_user(self.account(user), self.bench.settings().accounts)
        owner = AreaOwner(user=account.name, uid=account.uid, home=account.home)
        found = list_areas(self.settings, owner, [] if project is None else [project])
        return next(area for area in found if area.name == name)

    async def make(self, user: str, *areas: Area) -> list[str]:
        return list(await self.places.create_folders(self.account(user), areas))

    async def look(self, user: str, *areas: Area) -> list[AreaFacts]:
        return list(await self.places.read_areas(self.account(user), areas))


@pytest.fixture(scope="module")
def broker(users: dict[str, str]) -> Iterator[BrokerBench]:
    subprocess.run(["groupadd", PROJECT], check=True)
    subprocess.run(["gpasswd", "--add", users["anna"], PROJECT], check=True, capture_output=True)
    bench = BrokerBench(users)
    areas = "".join(
        f'[[storage.areas]]\nname = "{name}"\npath = "{bench.root}/{path}"\n{more}\n'
        for name, path, more in (
            ("scratch", "scratch/{user}", ""),
            ("projects", "projects/{project}", 'kind = "project"'),
            ("other", "other/{project}", 'kind = "project"'),
            ("disk", "disk/{user}", f'mount = "{bench.root}/disk"'),
            ("silent", "silent/{user}", ""),
            ("open", "open/{user}", ""),
            ("bent", "link/{user}", ""),
            ("deep", "missing/deep/{user}", ""),
        )
    )
    bench.write_config(more=areas)
    for folder in ("scratch", "projects", "disk", "open", "elsewhere", "other"):
        (bench.root / folder).mkdir(mode=0o755)
    (bench.root / "open").chmod(0o777)
    (bench.root / "link").symlink_to("elsewhere")
    bench.start()
    yield bench
    bench.stop()
    subprocess.run(["groupdel", PROJECT], check=True)


@pytest.fixture
async def site(broker: BrokerBench) -> AsyncIterator[Site]:
    settings = tomllib.loads(broker.config.read_text())["storage"]
    places = BrokerUserFolders(broker.settings())
    yield Site(broker, places, StorageSettings.model_validate(settings))
    await places.close()


def owner_and_mode(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def looks_as(uid: int) -> bool:
    """Return whether a process of the account has a second thread, which reads a file system."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
            if facts["Uid"].split()[0] == str(uid) and int(facts["Threads"]) > 1:
                return True
    return False


async def test_a_users_folder_is_the_users_alone(site: Site) -> None:
    area = site.area("anna", "scratch")
    [before] = await site.look("anna", area)
    assert (before.available, before.problem) == (False, f"There is no folder {area.path}.")

    assert await site.make("anna", area) == []

    owner = (site.bench.uid("anna"), site.bench.gid("anna"))
    assert owner_and_mode(Path(area.path)) == (*owner, 0o700)
    assert await site.make("anna", area) == [], "nothing is wrong with what is there"
    [mine] = await site.look("anna", area)
    [others] = await site.look("ben", area)
    assert (mine.available, mine.writable, mine.problem) == (True, True, None)
    assert mine.total_bytes is not None
    assert mine.total_bytes >= (mine.free_bytes or 0) > 0
    assert (others.available, others.writable) == (True, False)
    assert others.problem == f"{area.path} is not readable."


async def test_a_projects_folder_is_its_groups(site: Site) -> None:
    area = site.area("anna", "projects", PROJECT)
    assert await site.make("anna", area) == []
    uid, gid, mode = owner_and_mode(Path(area.path))
    assert (uid, mode) == (0, 0o2770)
    assert gid == next(
        int(line.split(":")[2])
        for line in Path("/etc/group").read_text().splitlines()
        if line.startswith(f"{PROJECT}:")
    )
    [found] = await site.look("anna", area)
    assert found.writable


async def test_a_projects_folder_needs_the_group_and_a_member(site: Site) -> None:
    unknown = site.area("anna", "projects", "no-such-group")
    foreign = site.area("ben", "other", PROJECT)
    [first] = await site.make("anna", unknown)
    [second] = await site.make("ben", foreign)
    assert "there is no Unix group no-such-group on this machine" in first
    assert f"is not in the Unix group {PROJECT}" in second
    assert not Path(unknown.path).exists()
    assert not Path(foreign.path).exists()


async def test_storage_areas_outside_broker_settings_are_not_created(site: Site) -> None:
    area = site.area("anna", "scratch")
    elsewhere = site.path("elsewhere")
    wishes = [
        area.model_copy(update={"path": str(elsewhere / "x")}),
        area.model_copy(update={"path": f"{area.path}/../../elsewhere/x"}),
        site.area("ben", "scratch"),
        area.model_copy(update={"name": "disk"}),
        site.area("anna", "disk").model_copy(update={"mount": None}),
    ]
    said = await site.make("anna", *wishes)
    assert len(said) == len(wishes)
    assert all("it is not where [storage] puts" in each for each in said)
    assert list(elsewhere.iterdir()) == []
    with pytest.raises(NotAllowed):
        await site.places.create_folders("root", [area])
    with pytest.raises(NotAllowed):
        await site.places.create_folders(None, [area])
    with pytest.raises(InvalidInput):
        await site.make("anna", area.model_copy(update={"path": "relative"}))


async def test_storage_areas_beyond_request_maximum_are_created(site: Site) -> None:
    area = site.area("ben", "scratch")
    many = [area.model_copy(update={"path": f"/nowhere/{n}"}) for n in range(MAX_AREAS)]
    found = await site.make("ben", *many, area)
    assert len(found) == MAX_AREAS
    Path(area.path).rmdir()


async def test_no_link_and_no_folder_of_others_is_made_in(site: Site) -> None:
    areas = [site.area("ben", name) for name in ("bent", "open", "deep")]
    linked, open_to_all, missing = await site.make("ben", *areas)
    assert f"{site.path('link')} is a link or not a folder" in linked
    assert (
        f"{site.path('open')} belongs to uid 0 (mode 0777), so other users could replace"
        in open_to_all
    )
    assert f"the folder {site.path('missing')} does not exist" in missing
    assert list(site.path("elsewhere").iterdir()) == []
    assert list(site.path("open").iterdir()) == []
    assert not site.path("missing").exists()


async def test_existing_folder_of_other_owner_is_reported_and_unchanged(site: Site) -> None:
    area = site.area("ben", "scratch")
    target, path = site.path("elsewhere"), Path(area.path)
    path.symlink_to("/etc")
    [said] = await site.make("ben", area)
    assert f"{path} belongs to uid 0 instead of {site.bench.uid('ben')}" in said
    assert owner_and_mode(Path("/etc"))[0] == 0
    path.unlink()

    path.mkdir()
    os.chown(path, site.bench.uid("anna"), 0)
    [said] = await site.make("ben", area)
    assert f"belongs to uid {site.bench.uid('anna')} instead of" in said
    os.chown(path, site.bench.uid("ben"), 0)
    path.chmod(0o777)
    [said] = await site.make("ben", area)
    assert f"`chmod 0700 {path}` corrects this" in said
    assert owner_and_mode(path) == (site.bench.uid("ben"), 0, 0o777)
    path.rmdir()

    path.touch()
    [said] = await site.make("ben", area)
    assert "is not a folder" in said
    path.unlink()
    assert list(target.iterdir()) == []


async def test_storage_area_is_not_created_below_missing_mount(site: Site) -> None:
    area = site.area("anna", "disk")
    where = f"no file system is mounted at {site.path('disk')}"
    [said] = await site.make("anna", area)
    [facts] = await site.look("anna", area)
    assert where in said
    assert (facts.available, where in (facts.problem or "").lower()) == (False, True)
    assert list(site.path("disk").iterdir()) == []
    with mounted(site.path("disk"), "mode=0755", "size=4m"):
        assert await site.make("anna", area) == []
        [facts] = await site.look("anna", area)
        assert (facts.available, facts.writable, facts.file_system) == (True, True, "tmpfs")
        assert facts.total_bytes == 4 << 20
    [facts] = await site.look("anna", area)
    assert not facts.available


async def test_a_home_that_is_missing_is_made(site: Site) -> None:
    area = site.area("anna", "home")
    assert not Path(area.path).exists()
    try:
        assert await site.make("anna", area) == []
        owner = (site.bench.uid("anna"), site.bench.gid("anna"))
        assert owner_and_mode(Path(area.path)) == (*owner, 0o700)
    finally:
        Path(area.path).rmdir()


async def test_paths_are_seen_as_the_account_sees_them(site: Site) -> None:
    folder = site.path("home", site.account("anna"))
    (folder / "data").write_bytes(b"12345")
    (folder / "link").symlink_to("data")
    (folder / "secret").touch(mode=0o600)
    for name in ("data", "secret"):
        os.chown(folder / name, site.bench.uid("anna"), 0)
    os.chown(folder / "secret", 0, 0)
    paths = [str(folder / name) for name in ("data", "link", "secret", "nothing")]
    paths += [str(folder), "/etc/shadow", "/dev/null"]

    data, link, secret, nothing, home, shadow, null = await site.places.read_paths(
        site.account("anna"), paths
    )

    assert (data.kind, data.readable, data.writable, data.size_bytes) == ("file", True, True, 5)
    assert (link.real_path, link.path) == (str(folder / "data"), str(folder / "link"))
    assert (secret.kind, secret.readable, secret.problem) == ("file", False, "it is not readable")
    assert (nothing.kind, nothing.real_path) == (None, None)
    assert nothing.problem == "No such file or directory"
    assert (home.kind, home.readable, home.writable) == ("folder", True, True)
    assert (shadow.readable, shadow.writable) == (False, False)
    assert null.kind == "other"
    [hidden] = await site.places.read_paths(site.account("ben"), [str(folder / "data")])
    assert (hidden.kind, hidden.problem) == (None, "Permission denied")


async def test_a_file_system_that_never_answers_holds_up_nothing_else(site: Site) -> None:
    silent, scratch = site.area("ben", "silent"), site.area("ben", "scratch")
    files = site.bench.files()
    with hanging(site.path("silent")):
        looking = asyncio.create_task(site.look("ben", silent, scratch))
        uid = site.bench.uid("ben")
        await asyncio.to_thread(eventually, "a helper that looks", lambda: looks_as(uid))
        place = site.bench.place("ben", uuid4())
        await files.create_attempt_folder(place, {"token": b"x"})
        assert not looking.done(), "the job's files waited for the silent file system"
        hung, other = await looking
        assert hung.problem == f"The file system of {silent.path} does not answer."
        assert other.problem == f"There is no folder {scratch.path}."
        [hung] = await site.look("ben", silent)
        [path] = await site.places.read_paths(site.account("ben"), [f"{silent.path}/x"])
        assert (hung.available, path.problem) == (False, "its file system does not answer")
    await files.close()


def test_a_storage_adapter_that_there_is_not_keeps_the_broker_from_starting(
    users: dict[str, str], bench: BrokerBench
) -> None:
    bench.write_config(more='[storage]\nhome = "magic"\n')
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fake_broker", "--config", str(bench.config)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "There is no storage adapter 'magic'; there is: beegfs, posix.\n"


def test_making_needs_no_right_but_the_one_to_give_away(
    users: dict[str, str], broker: BrokerBench
) -> None:
    """As the unit in ``docs/howto/slurm.md`` leaves it to the broker."""
    below = broker.root / "few rights"
    below.mkdir()
    os.chown(below, 0, broker.uid("ben"))
    below.chmod(0o2755)  # what is made here belongs to another group at first
    program = (
        "import sys; from aitne.adapters.unix_account_mapping import unix_user\n"
        "from aitne.adapters.area_folders import create_area_folder\n"
        "from aitne.core.models.storage_area import Area\n"
        "path, project, user = sys.argv[1:]\n"
        "for kind in ('user', 'project'):\n"
        "    area = Area(name='x', kind=kind, path=f'{path}/{kind}', project=project)\n"
        "    print(create_area_folder(area, unix_user(user)))\n"
    )
    rights = "-all,+setuid,+setgid,+setpcap,+kill,+dac_read_search,+chown"
    argv = [sys.executable, "-c", program, str(below), PROJECT, users["anna"]]
    done = subprocess.run(
        ["setpriv", f"--bounding-set={rights}", "--inh-caps=-all", *argv],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["None", "None"], done.stdout
    assert owner_and_mode(below / "user") == (broker.uid("anna"), broker.gid("anna"), 0o700)
    owner, group, mode = owner_and_mode(below / "project")
    assert (owner, mode) == (0, 0o2770)
    assert group not in (0, broker.uid("ben"))


async def test_making_is_written_down_and_looking_is_not(site: Site) -> None:
    area = site.area("anna", "scratch")
    await site.make("anna", area)
    await site.look("anna", area)
    assert site.bench.audited(verb="make_areas", account=site.account("anna"), outcome="done")
    assert not site.bench.audited(verb="areas")
