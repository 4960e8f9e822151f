"""Operations on datasets: read-only versions of folders that jobs read."""

from __future__ import annotations

import contextlib

from aitne.client.api_session import quote_segment
from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from aitne.client.api_session import ApiSession

CHECK_S = 300.0
"""Timeout of requests in seconds, long because the platform reads a manifest completely before it
answers."""


class DatasetRecord(Record):
    """One version of one dataset."""

    name: str
    version: str
    description: str
    licence: str
    """Licence or terms of use; may be empty."""
    owner: str
    path: str
    """Absolute path of the folder on the nodes."""
    size_bytes: int
    files: int
    """Number of files."""
    manifest: str
    """SHA-256 of the manifest, in hexadecimal."""
    projects: list[str]
    """Projects whose members may read the dataset, in addition to its owner."""
    created_at: datetime
    verified_at: datetime | None
    """Time of the last verification; None: never verified."""
    verified_by: str | None
    """User who ran the last verification; None: never verified."""
    damaged_files: int | None
    """Number of paths that differed from the manifest in the last verification; None: never
    verified.
    """
    retired: bool
    """Whether new jobs can no longer use this version."""

    @property
    def reference(self) -> str:
        """Return the reference ``name:version`` of this version."""
        return f"{self.name}:{self.version}"


class Datasets:
    """Operations on datasets, as ``client.datasets``. A reference is ``name:version``, or ``name``
    for the newest version that is not retired."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> list[DatasetRecord]:
        """Return all versions of the datasets that the user may read, by name and newest first;
        administrators get all datasets."""
        return [
            DatasetRecord(item) for item in self._session.request_json("GET", "/datasets")["items"]
        ]

    def versions(self, name: str) -> builtins.list[DatasetRecord]:
        """Return all versions of one dataset, newest first. Raises ``NotFound``."""
        versions = self._session.request_json("GET", f"/datasets/{quote_segment(name)}")["items"]
        return [DatasetRecord(item) for item in versions]

    def get(self, reference: str) -> DatasetRecord:
        """Return one version of a dataset, by default the newest that is not retired. Raises
        ``NotFound``."""
        name, _, version = reference.partition(":")
        if version:
            return DatasetRecord(
                self._session.request_json("GET", _make_version_path(name, version))
            )
        versions = self.versions(name)
        return next((dataset for dataset in versions if not dataset.retired), versions[0])

    def manifest(self, reference: str) -> Iterator[bytes]:
        """Download the manifest of a version and yield its text in chunks.

        Raises ``NotFound``, ``Unavailable``, or ``InvalidInput`` if the received text is damaged.
        """
        from aitne.client.http_transport import ConnectionFailed
        from aitne.core.dataset_manifest import MOST_BYTES, decompress_manifest
        from aitne.core.errors import Unavailable

        path = f"{self._resolve_path(reference)}/manifest"
        try:
            reply = self._session.open_stream(path)
            try:
                yield from decompress_manifest(reply.chunks(), most_bytes=MOST_BYTES)
            finally:
                reply.close()
        except ConnectionFailed as failure:
            raise Unavailable(
                f"The manifest of {reference} did not arrive: {failure.reason}. Try again."
            ) from failure

    def check(self, dataset: Mapping[str, Any]) -> None:
        """Validate the fields of a dataset without adding it; raises the errors that ``add`` would
        raise.

        Call it before the manifest is created, which can take hours for a large dataset. It does
        not check whether the version already exists; only ``add`` does.
        """
        from aitne.core.errors import ManifestMissing

        with contextlib.suppress(ManifestMissing):
            # No text has this digest, which the platform checks after all other fields.
            self._session.request_json("POST", "/datasets", body={**dataset, "manifest": "0" * 64})

    def add(
        self, dataset: Mapping[str, Any], *, manifest: str, text: Iterable[bytes]
    ) -> DatasetRecord:
        """Add a version of a dataset and return it.

        ``dataset`` has ``name``, ``version``, ``path``, and optionally ``description``, ``licence``
        and ``project``. ``manifest`` is the digest of the manifest ``text``, which is uploaded if
        the platform does not have it.

        Raises ``InvalidInput``, ``Conflict``, ``NotAllowed``, ``NotFound``, ``Unavailable``.
        """
        from aitne.core.errors import ManifestMissing

        body = {**dataset, "manifest": manifest}
        try:
            return DatasetRecord(self._session.request_json("POST", "/datasets", body=body))
        except ManifestMissing:
            self.upload_manifest(manifest, text)
        return DatasetRecord(self._session.request_json("POST", "/datasets", body=body))

    def upload_manifest(self, digest: str, text: Iterable[bytes]) -> None:
        """Upload a manifest before its dataset is added; the platform keeps it for a day.

        ``digest`` is the SHA-256 of ``text``. Raises ``InvalidInput``, ``RateLimited``,
        ``Unavailable``.
        """
        from aitne.core.dataset_manifest import compress_manifest

        self._session.request_body(
            "PUT",
            f"/manifests/{quote_segment(digest)}",
            body=b"".join(compress_manifest(text)),
            repeatable=True,
            timeout_s=CHECK_S,
        )

    def grant(self, reference: str, project: str) -> DatasetRecord:
        """Allow the members of a project to read the dataset. Raises ``NotFound``,
        ``NotAllowed``."""
        path = f"{self._resolve_path(reference)}/projects/{quote_segment(project)}"
        return DatasetRecord(self._session.request_json("PUT", path, repeatable=True))

    def revoke(self, reference: str, project: str) -> DatasetRecord:
        """Withdraw a project's permission to read the dataset. Raises ``NotFound``,
        ``NotAllowed``."""
        path = f"{self._resolve_path(reference)}/projects/{quote_segment(project)}"
        return DatasetRecord(self._session.request_json("DELETE", path))

    def retire(self, reference: str, *, retired: bool = True) -> DatasetRecord:
        """Retire a version, so that new jobs cannot use it; with ``retired=False``, offer it again.

        Raises ``NotFound``, ``NotAllowed``.
        """
        body = {"retired": retired}
        return DatasetRecord(
            self._session.request_json(
                "PATCH", self._resolve_path(reference), body=body, repeatable=True
            )
        )

    def note_verification(
        self, reference: str, *, manifest: str, damaged_files: int
    ) -> DatasetRecord:
        """Record the result of comparing a dataset with its manifest.

        ``manifest`` is the digest of the manifest, and ``damaged_files`` the number of files that
        were missing or differed. Raises ``NotFound``, ``NotAllowed``, ``Conflict``.
        """
        body = {"manifest": manifest, "damaged_files": damaged_files}
        path = f"{self._resolve_path(reference)}/verification"
        return DatasetRecord(self._session.request_json("POST", path, body=body, repeatable=True))

    def _resolve_path(self, reference: str) -> str:
        name, _, version = reference.partition(":")
        return _make_version_path(name, version or self.get(name).version)


def _make_version_path(name: str, version: str) -> str:
    return f"/datasets/{quote_segment(name)}/{quote_segment(version)}"
