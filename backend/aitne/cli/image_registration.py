"""Changes of the image catalogue by administrators."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aitne.cli import output
from aitne.cli.job_lookup import make_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.adapters.images.image_builder import BuildResult
    from aitne.client import Client
    from aitne.client.images import ImageRecord
    from aitne.core.settings import Settings

ALL_USERS = "all users"


def make_administrator_client(url: str | None, data_dir: str | None) -> Client:
    """Return a client of the platform. Raises ``NotAllowed`` unless the user is an
    administrator."""
    client = make_client(url, data_dir)
    if client.me().user.role != "admin":
        from aitne.core.errors import NotAllowed

        raise NotAllowed("Only administrators of the platform manage images.")
    return client


def load_platform_settings(client: Client) -> Settings:
    """Return the settings of the platform, which must have been selected by its data directory.

    Raises ``SetupError`` if it was selected by its address: it may be on another machine or keep
    its images elsewhere, and images here would be mistaken for its own and removed.
    """
    from aitne.client.platform_discovery import ask_supervisor
    from aitne.core.errors import SetupError
    from aitne.local_system.settings_loader import load_settings

    data_dir = client.platform.data_dir
    if data_dir is None:
        raise SetupError(
            f"{client.platform.url} was selected by its address ({client.platform.source}), which "
            "does not tell the folder of its images. Run this on the platform's own machine and "
            "name its data directory with --data-dir."
        )
    # Options and variables of `aitne up` are not stored in a file.
    stored = (ask_supervisor(data_dir, "settings") or {}).get("settings", {})
    # Root may use another user's platform, which must not decide what root runs.
    os.environ.update({name: value for name, value in stored.items() if name.startswith("AITNE_")})
    return load_settings(Path(data_dir))


def list_missing_runtimes(
    client: Client, name: str, version: str, runtimes: Sequence[str]
) -> list[str]:
    """Return the ``runtimes`` for which the catalogue has no artifact of this version yet.

    Raises ``Conflict`` if the version is damaged or retired.
    """
    for image in client.images.list():
        if (image.name, image.version) == (name, version):
            if not image.offered:
                from aitne.core.errors import Conflict

                state = "damaged" if image.damage else "retired"
                raise Conflict(
                    f"{image.reference} is in the catalogue and {state}. Choose another version; or "
                    f"`aitne admin image retire` and `gc` remove it."
                )
            there = {artifact.runtime for artifact in image.artifacts}
            return [runtime for runtime in runtimes if runtime not in there]
    return [*runtimes]


def register_image(
    client: Client, image: dict[str, object], build: BuildResult, projects: Sequence[str]
) -> ImageRecord:
    """Register a new image in the catalogue and return it. If the platform rejects the image, the
    files in ``build`` are removed.
    """
    from aitne.adapters.images.image_folder import remove_path
    from aitne.core.errors import AitneError, Unavailable

    artifacts = [
        artifact.model_dump(include={"runtime", "digest"})
        | ({"path": artifact.path} if artifact.path else {"size_bytes": artifact.size_bytes})
        for artifact in build.artifacts
    ]
    packages = [package.model_dump() for package in build.packages]
    output.print_message("Registering it with the platform")
    try:
        return client.images.register(image, artifacts, packages=packages, projects=projects)
    except AitneError as error:
        # Without an answer it is unknown whether the image was registered; gc checks it later.
        if not isinstance(error, Unavailable):
            # Another process may have registered the same image at the same time.
            with suppress(AitneError):
                known_paths = {
                    item.path for entry in client.images.list() for item in entry.artifacts
                }
                for artifact in build.artifacts:
                    if artifact.path is not None and artifact.path not in known_paths:
                        remove_path(Path(artifact.path))
        raise


def format_audience(image: ImageRecord) -> str:
    """Return the users who may use an image as text: names of projects, or ``all users``."""
    return ", ".join(image.projects) or ALL_USERS
