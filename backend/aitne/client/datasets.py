"""Datasets: what jobs read."""

from __future__ import annotations

import contextlib

from aitne.client.records import Record
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from aitne.client.session import Session

CHECK_S = 300.0
"""The platform reads a manifest to its end before it answers."""


class Dataset(Record):
    """One version of one dataset."""

    name: str
    version: str
    description: str
    licence: str
    owner: str
    path: str
    size_bytes: int
    files: int
    manifest: str
    projects: list[str]
    created_at: datetime
    verified_at: datetime | None
    verified_by: str | None
    damaged_files: int | None
    retired: bool

    @property
    def reference(self) -> str:
        """``name:version``."""
        return f"{self.name}:{self.version}"


class Datasets:
    """``client.datasets``. A dataset is named ``name:version``; of ``name`` it is the newest that is
    not retired."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[Dataset]:
        """All versions that one may read, by name and newest first; for administrators all."""
        return [Dataset(item) for item in self._session.json("GET", "/datasets")["items"]]

    def versions(self, name: str) -> builtins.list[Dataset]:
        """All versions of one, newest first. Raises ``NotFound``."""
        found = self._session.json("GET", f"/datasets/{segment(name)}")["items"]
        return [Dataset(item) for item in found]

    def get(self, reference: str) -> Dataset:
        """Raises ``NotFound``."""
        name, _, version = reference.partition(":")
        if version:
            return Dataset(self._session.json("GET", _path(name, version)))
        found = self.versions(name)
        return next((each for each in found if not each.retired), found[0])

    def manifest(self, reference: str) -> Iterator[bytes]:
        """The manifest's text, in pieces. Raises ``NotFound``, ``Unavailable``, ``InvalidInput``."""
        from aitne.client.http import ConnectionFailed
        from aitne.core.errors import Unavailable
        from aitne.core.manifest import MOST_BYTES, unpack

        path = f"{self._found(reference)}/manifest"
        try:
            reply = self._session.stream(path)
            try:
                yield from unpack(reply.chunks(), most_bytes=MOST_BYTES)
            finally:
                reply.close()
        except ConnectionFailed as failure:
            raise Unavailable(
                f"The manifest of {reference} did not arrive: {failure.reason}. Try again."
            ) from failure

    def check(self, dataset: Mapping[str, Any]) -> None:
        """Raise what ``add`` would raise for these fields, before a manifest is made of files that
        take hours to read. That the version is still free shows only when it is added."""
        from aitne.core.errors import ManifestMissing

        with contextlib.suppress(ManifestMissing):
            # No text has this digest: it is the last thing that the platform looks at.
            self._session.json("POST", "/datasets", body={**dataset, "manifest": "0" * 64})

    def add(self, dataset: Mapping[str, Any], *, manifest: str, text: Iterable[bytes]) -> Dataset:
        """Add a version. ``dataset`` has name, version, path, and perhaps description, licence and
        project; ``manifest`` is the digest of ``text``, which is uploaded if the platform lacks it.

        Raises ``InvalidInput``, ``Conflict``, ``NotAllowed``, ``NotFound``, ``Unavailable``."""
        from aitne.core.errors import ManifestMissing

        body = {**dataset, "manifest": manifest}
        try:
            return Dataset(self._session.json("POST", "/datasets", body=body))
        except ManifestMissing:
            self.upload_manifest(manifest, text)
        return Dataset(self._session.json("POST", "/datasets", body=body))

    def upload_manifest(self, digest: str, text: Iterable[bytes]) -> None:
        """Have the platform keep a manifest for a day, for a dataset that is to be added.

        Raises ``InvalidInput``, ``RateLimited``, ``Unavailable``."""
        from aitne.core.manifest import pack

        self._session.read(
            "PUT",
            f"/manifests/{segment(digest)}",
            body=b"".join(pack(text)),
            repeatable=True,
            timeout_s=CHECK_S,
        )

    def grant(self, reference: str, project: str) -> Dataset:
        """Let a project's members read it. Raises ``NotFound``, ``NotAllowed``."""
        path = f"{self._found(reference)}/projects/{segment(project)}"
        return Dataset(self._session.json("PUT", path, repeatable=True))

    def revoke(self, reference: str, project: str) -> Dataset:
        """Take that back. Raises ``NotFound``, ``NotAllowed``."""
        path = f"{self._found(reference)}/projects/{segment(project)}"
        return Dataset(self._session.json("DELETE", path))

    def retire(self, reference: str, *, retired: bool = True) -> Dataset:
        """Have new jobs name it no more, or again. Raises ``NotFound``, ``NotAllowed``."""
        body = {"retired": retired}
        return Dataset(
            self._session.json("PATCH", self._found(reference), body=body, repeatable=True)
        )

    def note_verification(self, reference: str, *, manifest: str, damaged_files: int) -> Dataset:
        """Keep how many files were missing or differed from the manifest of that digest.

        Raises ``NotFound``, ``NotAllowed``, ``Conflict``."""
        body = {"manifest": manifest, "damaged_files": damaged_files}
        path = f"{self._found(reference)}/verification"
        return Dataset(self._session.json("POST", path, body=body, repeatable=True))

    def _found(self, reference: str) -> str:
        name, _, version = reference.partition(":")
        return _path(name, version or self.get(name).version)


def _path(name: str, version: str) -> str:
    return f"/datasets/{segment(name)}/{segment(version)}"
