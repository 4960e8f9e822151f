"""The broker reads files of users with the users' rights only."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aitne.adapters.broker_account_files import BrokerAccountFiles
from aitne.core.errors import ChangedMeanwhile, Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.ports.account_files import FileRoot
from tests.support import realtime
from tests.support.broker import BrokerBench, as_uid

pytestmark = realtime.PROCESSES

SECRET = "a word that only root may read"


@pytest.fixture
async def reader(shared_bench: BrokerBench) -> AsyncIterator[BrokerAccountFiles]:
    found = BrokerAccountFiles(shared_bench.settings())
    yield found
    await found.close()


@pytest.fixture
def work(shared_bench: BrokerBench) -> Path:
    """A folder of anna's with a file that is hers, one that is root's, and links to both."""
    folder = shared_bench.root / "work"
    if not folder.exists():
        folder.mkdir()
        os.chown(folder, shared_bench.uid("anna"), shared_bench.gid("anna"))
        folder.chmod(0o700)
        secret = shared_bench.root / "roots-secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)

        def fill() -> None:
            (folder / "model.pt").write_bytes(b"\xff\x00weights")
            (folder / "a\nb").write_bytes(b"strange")
            (folder / "latest").symlink_to("model.pt")
            (folder / "secret").symlink_to(secret)
            (folder / "environ").symlink_to("/proc/self/environ")
            (folder / "root").symlink_to("/proc/1/root")
            os.mkfifo(folder / "pipe")

        as_uid(shared_bench.uid("anna"), fill)
    return folder


async def test_a_user_reads_files_of_the_users_own(
    shared_bench: BrokerBench, reader: BrokerAccountFiles, work: Path
) -> None:
    root = FileRoot(account=shared_bench.users["anna"], folder=str(work))
    listed = await reader.list_folder(root, "", after="", limit=3)
    assert [item.path for item in listed.items] == ["a%0Ab", "environ", "latest"]
    rest = await reader.list_folder(root, "", after=listed.next_cursor or "", limit=10)
    assert [item.path for item in rest.items] == ["model.pt", "pipe", "root", "secret"]
    for path, content in (("latest", b"\xff\x00weights"), ("a%0Ab", b"strange")):
        facts = await reader.get_entry(root, path)
        part = await reader.read_part(root, path, etag=facts.etag or "", offset=1, limit=99)
        assert part == content[1:]
    with pytest.raises(ChangedMeanwhile):
        await reader.read_part(root, "model.pt", etag="0" * 32, offset=0, limit=1)


async def test_files_that_the_account_may_not_read_stay_hidden(
    shared_bench: BrokerBench, reader: BrokerAccountFiles, work: Path
) -> None:
    root = FileRoot(account=shared_bench.users["anna"], folder=str(work))
    etag = (await reader.get_entry(root, "model.pt")).etag or ""

    async def read(root: FileRoot, path: str) -> bytes:
        return await reader.read_part(root, path, etag=etag, offset=0, limit=99)

    for path in ("secret", "environ", "root/etc/shadow"):
        with pytest.raises(NotAllowed, match="may not read"):
            await read(root, path)
    with pytest.raises(Conflict):
        await read(root, "pipe")
    with pytest.raises(NotFound, match="was removed"):
        await reader.get_entry(root, "none")
    with pytest.raises(InvalidInput):
        await read(root, "../roots-secret")
    with pytest.raises(NotAllowed):
        await read(FileRoot(account=shared_bench.users["ben"], folder=str(work)), "model.pt")
    for account in ("root", "nobody-such"):
        with pytest.raises(NotAllowed):
            await read(FileRoot(account=account, folder=str(work)), "model.pt")
