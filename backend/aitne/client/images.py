"""Operations on images, which jobs and sessions run in."""

from __future__ import annotations

from aitne.client.api_session import quote_segment
from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from aitne.client.api_session import ApiSession

CHECK_S = 900.0
"""Timeout of requests in seconds, long because the platform reads a new image's files completely
before it answers."""


class ArtifactRecord(Record):
    """File or Docker image from which one container runtime starts an image."""

    runtime: str
    """Container runtime, such as ``apptainer`` or ``docker``."""
    digest: str
    """Digest of the file, or the image ID in Docker."""
    size_bytes: int
    path: str | None
    """Absolute path of the file; None: Docker's own image store contains the image."""
    mtime_ns: int | None
    """Modification time of the file when it was verified, in nanoseconds since 1970; None: no
    file.
    """


class PackageRecord(Record):
    """Package in an image, as its software bill of materials lists it."""

    name: str
    version: str
    source: str
    """Package manager, such as ``debian`` or ``python``."""


class ImageRecord(Record, artifacts=ArtifactRecord, packages=PackageRecord):
    """One version of one image. In lists, ``packages`` is empty."""

    name: str
    version: str
    description: str
    apps: dict[str, dict[str, Any]]
    """Apps that sessions can start in the image, by name."""
    needs: dict[str, Any]
    """Requirements on the node, such as ``{"cuda": "12.6"}``."""
    env: dict[str, str]
    """Environment variables that the image sets."""
    artifacts: list[ArtifactRecord]
    """Files or Docker images, at most one for each container runtime."""
    packages: list[PackageRecord]
    state: str
    """``offered`` or ``retired``."""
    projects: list[str]
    """Projects whose members may use the image; empty: all users may use it."""
    created_at: datetime
    created_by: str
    verified_at: datetime | None
    """Time of the last verification; None: never verified."""
    damage: str | None
    """Problem that the last verification found; None: no problem."""

    @property
    def reference(self) -> str:
        """Return the reference ``name:version`` of this version."""
        return f"{self.name}:{self.version}"

    @property
    def offered(self) -> bool:
        """Return whether new jobs may use the image: it is not retired, and no damage is known."""
        return self.state == "offered" and self.damage is None


class Images:
    """Operations on images, as ``client.images``. A reference is ``name:version``, or ``name`` for
    the newest version."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> list[ImageRecord]:
        """Return the images that the user may use, by name and newest first, without their
        packages. Administrators get all images."""
        return [ImageRecord(item) for item in self._session.request_json("GET", "/images")["items"]]

    def get(self, reference: str) -> ImageRecord:
        """Return one image with its packages. Raises ``NotFound``."""
        return ImageRecord(self._session.request_json("GET", self._resolve_path(reference)))

    def register(
        self,
        image: Mapping[str, Any],
        artifacts: Sequence[Mapping[str, Any]],
        *,
        packages: Sequence[Mapping[str, str]] = (),
        projects: Sequence[str] = (),
    ) -> ImageRecord:
        """Register an image; administrators only.

        ``image`` has ``name``, ``version``, ``description``, ``apps``, ``needs`` and ``env``. Each
        artifact has ``runtime``, ``digest``, and either ``path`` or ``size_bytes``. ``projects``
        are those whose members may use it; empty: all users.

        Raises ``InvalidInput``, ``Conflict``.
        """
        body = {
            **image,
            "artifacts": [dict(artifact) for artifact in artifacts],
            "packages": [dict(package) for package in packages],
            "projects": [*projects],
        }
        answer = self._session.request_json(
            "POST", "/images", body=body, repeatable=True, timeout_s=CHECK_S
        )
        return ImageRecord(answer)

    def retire(self, reference: str) -> ImageRecord:
        """Retire an image, so that new jobs cannot use it; administrators only. Raises
        ``NotFound``."""
        return self._change(reference, {"state": "retired"})

    def offer(self, reference: str) -> ImageRecord:
        """Offer a retired image again; administrators only. Raises ``NotFound``."""
        return self._change(reference, {"state": "offered"})

    def set_projects(self, reference: str, projects: Sequence[str]) -> ImageRecord:
        """Set the projects whose members may use the image; empty: all users. Administrators only.
        Raises ``NotFound``."""
        return self._change(reference, {"projects": [*projects]})

    def note_verification(self, reference: str, damage: str | None) -> ImageRecord:
        """Store the result of a verification; administrators only. ``damage`` describes the problem
        that was found; None: the image is intact. Raises ``NotFound``.
        """
        path = f"{self._resolve_path(reference)}/verification"
        return ImageRecord(
            self._session.request_json("POST", path, body={"damage": damage}, repeatable=True)
        )

    def remove(self, reference: str) -> builtins.list[ArtifactRecord]:
        """Delete a retired image from the catalogue and return its artifacts, whose files are kept;
        administrators only.

        Raises ``NotFound``, ``Conflict``.
        """
        answer = self._session.request_json("DELETE", self._resolve_path(reference))
        return [ArtifactRecord(item) for item in answer["items"]]

    def _change(self, reference: str, changes: Mapping[str, Any]) -> ImageRecord:
        path = self._resolve_path(reference)
        return ImageRecord(self._session.request_json("PATCH", path, body=changes, repeatable=True))

    def _resolve_path(self, reference: str) -> str:
        name, _, version = reference.partition(":")
        if not version:
            version = self._find_newest_path(name)
        return f"/images/{quote_segment(name)}/{quote_segment(version)}"

    def _find_newest_path(self, name: str) -> str:
        versions = [image for image in self.list() if image.name == name]
        for image in versions:
            if image.offered:
                return image.version
        if versions:
            return versions[0].version
        from aitne.core.errors import NotFound

        raise NotFound("image", name)
