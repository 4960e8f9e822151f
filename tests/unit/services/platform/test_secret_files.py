"""Secrets of Slurm and of the platform that other accounts can read, change or replace."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from aitne.core.errors import SchedulerUnavailable
from aitne.core.settings import Settings
from aitne.services.platform import secret_file_inventory
from aitne.services.platform.exposed_files import SecretsSeen
from aitne.services.platform.secret_file_inventory import SecretFiles, list_slurm_secret_files

USER, NOBODY = 54_321, 65_534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account can enter."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def settings(place: Path) -> Settings:
    data_dir = place / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "secrets").mkdir(mode=0o700)
    return Settings(data_dir=data_dir)


@pytest.fixture
def folder(place: Path) -> Path:
    """The folder of Slurm's settings, with keys that only their account can read."""
    made = place / "etc-slurm"
    made.mkdir(mode=0o755)
    for name in ("jwt.key", "slurmdbd.conf", "munge.key"):
        (made / name).write_text("secret")
        (made / name).chmod(0o600)
    return made


def config(folder: Path, **changes: str) -> dict[str, str]:
    """The output of `scontrol show config` about the keys."""
    return {
        "AuthType": "auth/munge",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={folder}/jwt.key,max_token_lifespan=60",
        "SLURM_CONF": f"{folder}/slurm.conf",
        "SlurmctldHost[0]": "localhost",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
    } | changes


async def look(
    settings: Settings,
    values: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> SecretsSeen:
    async def read() -> Mapping[str, str]:
        return values

    monkeypatch.setattr(
        secret_file_inventory,
        "_munge_key",
        lambda socket: Path(values["SLURM_CONF"]).with_name("munge.key"),
    )
    return await SecretFiles(settings, read).inspect()


@contextmanager
def account(uid: int, gid: int) -> Iterator[None]:
    """Act as another account."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


async def test_private_keys_are_no_finding(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await look(settings, config(folder), monkeypatch) == SecretsSeen((), (), ())


@pytest.mark.parametrize(
    ("name", "mode", "corrected"),
    [
        ("jwt.key", 0o644, 0o640),
        ("jwt.key", 0o660, 0o640),
        ("jwt.key", 0o602, 0o600),
        ("slurmdbd.conf", 0o644, 0o600),
        ("munge.key", 0o440, 0o400),
    ],
)
async def test_key_that_others_can_read_is_named_with_the_command_that_corrects_it(
    name: str,
    mode: int,
    corrected: int,
    settings: Settings,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = folder / name
    path.chmod(mode)
    (found,) = (await look(settings, config(folder), monkeypatch)).exposed
    assert str(path) in found.problem
    subprocess.run(found.command, shell=True, check=True)
    assert path.stat().st_mode & 0o777 == corrected
    assert (await look(settings, config(folder), monkeypatch)).exposed == ()


async def test_key_in_a_folder_that_others_can_write_to_is_exposed(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o777)
    (found,) = (await look(settings, config(folder), monkeypatch)).exposed
    assert (found.path, found.command) == (folder, f"chmod o-w {folder}")
    folder.chmod(0o1777)
    assert (await look(settings, config(folder), monkeypatch)).exposed == ()


@needs_root
@pytest.mark.parametrize("name", ["jwt.key", "."])
async def test_key_or_folder_of_a_user_is_exposed(
    name: str, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / name
    os.chown(path, USER, 0)
    (found,) = (await look(settings, config(folder), monkeypatch)).exposed
    assert (found.path, found.command) == (path, f"chown root {path}")
    for owner, changes in ((101, {}), (64_030, {"SlurmUser": "slurm(64030)"})):
        os.chown(path, owner, 0)
        seen = await look(settings, config(folder, **changes), monkeypatch)
        assert seen.exposed == (), "of a service"


async def test_missing_key_is_unknown_unless_another_host_has_it(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jwt.key", "slurmdbd.conf"):
        (folder / name).unlink()
    hosts = {"SlurmctldHost[0]": "head1(192.0.2.1)", "AccountingStorageHost": "db1"}
    seen = await look(settings, config(folder, **hosts), monkeypatch)
    assert seen.elsewhere == (
        f"{folder}/jwt.key is on head1.",
        f"{folder}/slurmdbd.conf is on db1.",
    )
    seen = await look(settings, config(folder), monkeypatch)
    assert seen.unseen[0] == f"{folder}/jwt.key does not exist on this machine."


@needs_root
async def test_key_is_unknown_where_this_account_cannot_look(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(settings.data_dir, NOBODY, NOBODY)
    os.chown(settings.secrets_dir, NOBODY, NOBODY)
    folder.chmod(0o700)
    with account(NOBODY, NOBODY):
        seen = await look(settings, config(folder), monkeypatch)
        assert seen == SecretsSeen((), (), ()), "the folder keeps all others out, too"
    os.chown(folder, 0, NOBODY)
    folder.chmod(0o705)
    with account(NOBODY, NOBODY):
        seen = await look(settings, config(folder), monkeypatch)
    assert f"{folder}/jwt.key: Permission denied." in seen.unseen


async def test_secrets_are_unknown_while_slurm_does_not_answer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read() -> Mapping[str, str]:
        raise SchedulerUnavailable("slurmctld does not answer.")

    monkeypatch.setattr(secret_file_inventory, "SLURM_FOLDER", tmp_path)
    (tmp_path / "jwt.key").write_text("secret")
    (tmp_path / "jwt.key").chmod(0o604)
    seen = await SecretFiles(settings, read).inspect()
    assert "slurmctld does not answer." in seen.unseen[-1]
    assert [each.path for each in seen.exposed] == [tmp_path / "jwt.key"], "the usual place"


def test_key_of_munge_is_that_of_its_process(tmp_path: Path) -> None:
    socket = f"{tmp_path}/munge.sock"
    options = [f"--key-file={tmp_path}/other.key", f"--socket={socket}"]
    argv = ["munged", "-c", "print(flush=True); input()", *options]
    with subprocess.Popen(
        argv, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs: before, the kernel may show no command line
        own = next(
            list_slurm_secret_files({"AuthType": "auth/munge", "AuthInfo": f"socket={socket}"})
        )
        another = next(
            list_slurm_secret_files({"AuthType": "auth/munge", "AuthInfo": "socket=/none"})
        )
        assert process.stdin is not None
        process.stdin.close()
    assert own.path == tmp_path / "other.key"
    assert another.path == secret_file_inventory.MUNGE_KEY
