"""Image files of Apptainer (SIF): creation from layers or other images, inspection, and test runs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aitne.adapters.images import software_bill
from aitne.adapters.images.build_definition import DEFINITION
from aitne.adapters.images.image_build_log import Work
from aitne.adapters.images.image_folder import SCRATCH
from aitne.adapters.images.layer_cache import Layers
from aitne.core.models.image import Package

MAGIC = b"SIF_MAGIC"
_MAGIC_AT = 32
"""Offset of the magic number, which follows a line that makes the file executable (the SIF
specification, `sif/image.go`).
"""
SQUASH = "-comp zstd -Xcompression-level 3"
"""Options of mksquashfs. This level halves the size in a fifth of the time that gzip takes; higher
levels save 7 %, but take 3 times as long.
"""
NOBODY = 65_534
_PARTITION = re.compile(r"\|\s*(\d+)-(\d+)\s*\|FS \((Encrypted )?(\w+)/\*System/(\w+)\)")
_LISTED = "squashfs-root/"


@dataclass(frozen=True, slots=True)
class Apptainer:
    """Runner of the program ``apptainer``. ``tmp`` is the folder for its temporary files, among
    them whole root file systems.
    """

    program: str
    tmp: Path

    def environment(self, folder: Path) -> dict[str, str]:
        """Return environment variables that make Apptainer write only into ``folder``, which is
        removed afterwards.
        """
        return {
            "APPTAINER_TMPDIR": str(folder),
            "APPTAINER_CACHEDIR": str(folder / "cache"),
            "APPTAINER_CONFIGDIR": str(folder / "config"),
            "HOME": str(folder),
        }

    def build(self, layers: Layers, text: str, target: Path, work: Work) -> None:
        """Build an image from the layers with the definition ``text``.

        Raises:
            SetupError: the build failed; the message names the log.
        """
        work.report_step("Assembling the image")
        with (
            work.convert_errors("Assembling the image"),
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.tmp) as folder,
        ):
            for name, layer in layers.folders():
                Path(folder, name).symlink_to(layer)
            Path(folder, DEFINITION).write_text(text)
            self._build_image_file(DEFINITION, target, Path(folder), work)

    def convert(self, source: str, target: Path, work: Work) -> None:
        """Make an image file from ``source``: a folder or an archive such as
        ``docker-archive:/path``.

        Raises:
            SetupError: the source is not an image or is damaged; the message names the log.
        """
        work.report_step("Making an image file of it")
        with (
            work.convert_errors("Making an image file of it"),
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.tmp) as folder,
        ):
            self._build_image_file(source, target, Path(folder), work)

    def _build_image_file(self, source: str, target: Path, folder: Path, work: Work) -> None:
        argv = [self.program, "build", "--force", "--mksquashfs-args", SQUASH, str(target), source]
        env = self.environment(folder)
        work.run(argv, what="Making the image file", env=env, cwd=folder)
        target.chmod(0o644)

    def root_file_system_offset(self, image: Path, work: Work) -> int:
        """Return the offset in bytes of the image's root file system in the SIF file.

        Raises:
            SetupError: the image has no file system that can be mounted, or is truncated.
        """
        what = f"Inspecting {image.name}"
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.tmp) as folder:
            argv = [self.program, "sif", "list", str(image)]
            lines = work.run(argv, what=what, env=self.environment(Path(folder)))
        match = next(filter(None, map(_PARTITION.search, lines)), None)
        if match is None:
            raise work.failure(what, "it holds no root file system")
        start, end, encrypted, kind, _ = match.groups()
        if encrypted or kind != "Squashfs":
            raise work.failure(what, f"its file system is {encrypted or ''}{kind}, not Squashfs")
        if int(end) > image.stat().st_size:
            raise work.failure(what, "it is damaged: its end is missing")
        return int(start)

    def read_software_bill(self, image: Path, work: Work) -> tuple[Package, ...]:
        """Return the software bill of an image file, read from its file system; no program in the
        image is executed.

        If this process is root, it reads the untrusted file through an unprivileged account.

        Raises:
            SetupError: the file is damaged or not an image.
        """
        offset = ["-o", str(self.root_file_system_offset(image, work))]
        what = f"Reading the packages of {image.name}"
        with (
            work.convert_errors(what),
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.tmp) as name,
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.tmp) as ours,
        ):
            folder = Path(name)
            # Outside of the unprivileged account's folder, where root could follow a planted link.
            list_file = Path(ours, "paths")
            os.chmod(ours, 0o755)  # noqa: S103 - the unprivileged account reads it
            user = _change_owner_to_nobody(folder, image)
            listing: list[str] = []
            argv = ["unsquashfs", *offset, "-lc", str(image)]
            work.run(argv, what=what, user=user, watch=listing.append)
            paths = [line.removeprefix(_LISTED) for line in listing if line.startswith(_LISTED)]
            bill_paths = [
                path
                for path in paths
                if path == software_bill.STATUS or software_bill.is_metadata_path(path)
            ]
            if not bill_paths:
                return ()
            list_file.write_text("".join(f"{path}\n" for path in bill_paths))
            list_file.chmod(0o644)
            argv = ["unsquashfs", *offset, "-no-xattrs", "-no-progress", "-no-wildcards"]
            argv += ["-d", str(folder / "root"), "-ef", str(list_file), str(image)]
            work.run(argv, what=what, user=user)
            return software_bill.read_software_bill(folder / "root")

    def run_smoke_tests(
        self,
        image: Path,
        commands: Sequence[Sequence[str]],
        work: Work,
        *,
        env: Mapping[str, str],
        binds: Sequence[tuple[Path, str]] = (),
    ) -> None:
        """Run the test commands in the image as an ordinary user without a network; each must
        succeed.

        If only the owner of the file can read it, the commands run as that owner, as jobs do.

        Raises:
            SetupError: a command failed; the message contains its output.
        """
        with (
            work.convert_errors("Testing the image"),
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.tmp) as name,
        ):
            folder = Path(name)
            user = _change_owner_to_nobody(folder, image)
            argv = [self.program, "--quiet", "exec", "--containall", "--no-home", "--no-privs"]
            argv += ["--net", "--network", "none", "--pwd", "/"]
            for source, target in binds:
                argv += ["--bind", f"{source}:{target}:ro"]
            variables = {f"APPTAINERENV_{key}": value for key, value in env.items()}
            for number, command in enumerate(commands, 1):
                work.report_step(f"Testing the image, {number} of {len(commands)}")
                work.run(
                    [*argv, str(image), *command],
                    what=f"Testing `{' '.join(command)}` in the image",
                    env={**self.environment(folder), **variables},
                    cwd=folder,
                    user=user,
                    timeout_s=300,
                )


def is_sif(path: Path) -> bool:
    """Return True if a file has the magic number of SIF. Raises ``OSError``."""
    with path.open("rb") as stream:
        return stream.read(_MAGIC_AT + len(MAGIC))[_MAGIC_AT:] == MAGIC


def _change_owner_to_nobody(folder: Path, image: Path) -> int | None:
    """Change the owner of ``folder`` to the system's unprivileged account and return that account's
    uid, under which programs then read the image and write to ``folder``.

    Return None, and change nothing, if this process is not root, or if that account could not read
    the image file ``image`` or enter the parent of ``folder``. The programs then run under the
    account of this process.
    """
    if (
        os.geteuid() != 0
        or not _is_readable_by_all(image)
        or not _is_readable_by_all(folder.parent)
    ):
        return None
    os.chown(folder, NOBODY, NOBODY)
    return NOBODY


def _is_readable_by_all(path: Path) -> bool:
    mode = path.stat().st_mode
    readable = mode & (0o001 if path.is_dir() else 0o004)
    return bool(readable) and all(
        parent.stat().st_mode & 0o001 for parent in path.absolute().parents
    )
