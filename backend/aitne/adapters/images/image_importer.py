"""Import of images that were built elsewhere: SIF files, archives of ``docker save``, and folders
with a root file system.
"""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from aitne.adapters.images.apptainer_images import Apptainer, is_sif
from aitne.adapters.images.image_build_log import Progress, Work
from aitne.adapters.images.image_builder import BuildResult, get_log_path, smoke_test_sif
from aitne.adapters.images.image_folder import ImageFolder, check_digest, digest_of, size_of
from aitne.adapters.images.prerequisites import require_apptainer
from aitne.core.errors import InvalidInput
from aitne.core.models.image import ImageApp
from aitne.core.settings import Settings

SIF, ARCHIVE, FOLDER = "image file", "Docker archive", "folder"


@dataclass(frozen=True, slots=True)
class Source:
    """File or folder from which an image is imported."""

    path: Path
    """Absolute path."""
    kind: str
    """Format: ``SIF``, ``ARCHIVE`` or ``FOLDER``."""
    size_bytes: int
    """Size in bytes; for a folder, the estimated size of the image file."""


def inspect_source(path: Path) -> Source:
    """Determine the format and size of the image in the file or folder ``path``.

    Raises:
        InvalidInput: ``path`` contains no image in a known format.
    """
    path = path.expanduser().absolute()
    try:
        if path.is_dir():
            if not ((path / "bin").is_dir() and (path / "etc").is_dir()):
                raise _make_no_image_error(path, "a root file system has the folders bin and etc")
            # Estimated size of the file: compressed, a root file system takes about a third.
            return Source(path, FOLDER, size_of(path) // 3)
        if not path.is_file():
            raise _make_no_image_error(
                path, "it does not exist" if not path.exists() else "it is not a file"
            )
        size = path.stat().st_size
        if is_sif(path):
            return Source(path, SIF, size)
        if _is_archive(path):
            return Source(path, ARCHIVE, size)
    except OSError as error:
        raise _make_no_image_error(path, f"it cannot be read: {error.strerror}") from error
    raise _make_no_image_error(
        path, "it is neither an image file of Apptainer nor what `docker save` writes"
    )


def import_image(
    source: Source,
    name: str,
    version: str,
    settings: Settings,
    progress: Progress,
    *,
    digest: str | None,
    apps: dict[str, ImageApp],
) -> BuildResult:
    """Make an image file from the source, read its software bill and test it.

    ``digest`` is the expected digest of the source, if the source is a file; None: it is not
    checked.

    Raises:
        InvalidInput: the digest differs.
        SetupError: a step failed; the message names the log, and all partial results are removed.
    """
    if digest is not None and source.kind == FOLDER:
        raise InvalidInput.field(
            "--digest", "a folder has no digest; the option is for files", value=digest
        )
    require_apptainer(progress, settings.containers.apptainer)
    work = Work(get_log_path(name), progress)
    folder = ImageFolder(settings.images_dir)
    folder.check_space(source.size_bytes)
    apptainer = Apptainer(settings.containers.apptainer, settings.containers.tmp_dir)
    with folder.create_work_folder() as making:
        target = making / "image.sif"
        copy = target if source.kind == SIF else making / "archive.tar"
        if source.kind == FOLDER:
            apptainer.convert(str(source.path), target, work)
        else:
            work.report_step(f"Copying the {source.kind}")
            with work.convert_errors(f"Copying {source.path}"):
                shutil.copyfile(source.path, copy)
                copy.chmod(0o644)
                # The copy is checked, because the copy is used.
                check_digest(digest, digest_of(copy), source.path)
        if source.kind == ARCHIVE:
            apptainer.convert(f"docker-archive:{copy}", target, work)
            copy.unlink()
        work.report_step("Reading its packages")
        packages = apptainer.read_software_bill(target, work)
        smoke_test_sif(apptainer, target, (), apps, {}, making, work)
        with work.convert_errors("Storing the image"):
            artifact = folder.add_file(target, name, version)
    work.report_step("Imported and tested")
    return BuildResult((artifact,), packages, work.path, work.seconds)


def _is_archive(path: Path) -> bool:
    """Return True if the file is a tar archive with the manifest that ``docker save`` writes,
    compressed or not.
    """
    try:
        with tarfile.open(path) as archive:
            return any(member.name in ("manifest.json", "./manifest.json") for member in archive)
    except (tarfile.TarError, EOFError, ValueError):
        return False


def _make_no_image_error(path: Path, reason: str) -> InvalidInput:
    return InvalidInput.field(
        "SOURCE",
        f"{path} is not an image: {reason}",
        value=path,
        allowed="an image file of Apptainer (.sif), what `docker save` writes, or a folder with a root "
        "file system",
    )
