"""A dataset through the client, with a manifest of more than one write, to an API of its own."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.client import Client
from aitne.core.dataset_manifest import ManifestFile, compress_manifest, serialize_manifest
from aitne.core.errors import Conflict, InvalidInput, NotAuthenticated
from tests.integration.api.test_server import Server

FILES = 30_000


@pytest.fixture(scope="module")
def text() -> bytes:
    """Return a manifest of many files; checksums do not compress, so it stays large."""
    entries = [
        ManifestFile(
            f"{number:08}".encode(), number, hashlib.sha256(str(number).encode()).hexdigest()
        )
        for number in range(FILES)
    ]
    return b"".join(serialize_manifest(entries))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("api")
    server = Server(folder / "data")
    home = folder / "home"
    (home / "photos").mkdir(parents=True)
    server.environment["HOME"] = str(home)
    subprocess.run(
        [sys.executable, "-m", "aitne.controller", "init"],
        env=server.environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    process = server.start()
    try:
        server.wait(process)
        yield server
    finally:
        process.kill()
        process.communicate()


def test_a_dataset_is_added_and_its_manifest_comes_back(server: Server, text: bytes) -> None:
    digest = hashlib.sha256(text).hexdigest()
    photos = Path(server.environment["HOME"]) / "photos"
    assert len(b"".join(compress_manifest([text]))) > 1 << 20
    client = Client(server.url, server.headers()["Authorization"].split()[1])
    new = {"name": "photos", "version": "1.0", "path": str(photos)}
    added = client.datasets.add(new, manifest=digest, text=[text])
    assert (added.files, added.reference) == (FILES, "photos:1.0")
    assert b"".join(client.datasets.manifest("photos")) == text
    with pytest.raises(Conflict, match="another version"):
        client.datasets.add(new, manifest=digest, text=[text])
    noted = client.datasets.note_verification("photos", manifest=digest, damaged_files=1)
    assert noted.damaged_files == 1
    assert client.datasets.retire("photos").retired
    assert client.datasets.get("photos").retired


def test_refused_upload_reports_reason_and_sends_no_data(server: Server, text: bytes) -> None:
    """Of a body that is half sent one would only hear that the connection broke."""
    digest = hashlib.sha256(text).hexdigest()
    with pytest.raises(NotAuthenticated):
        Client(server.url, "aitne_pat_wrong").datasets.upload_manifest(digest, [text])
    client = Client(server.url, server.headers()["Authorization"].split()[1])
    with pytest.raises(InvalidInput, match="digest"):
        client.datasets.upload_manifest("0" * 64, [text])
