"""Prerequisites for building and importing images: Apptainer and the FUSE device."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from aitne.adapters.apt_installation import Progress
from aitne.core.errors import SetupError

PROGRAM = "apptainer"
FUSE = Path("/dev/fuse")
ADVICE = (
    "Install Apptainer 1.3 or newer: https://apptainer.org/docs/admin/main/installation.html lists "
    "packages for this system; in a checkout of Aitne on Debian, run `sudo make apptainer`."
)


def require_apptainer(progress: Progress, program: str = PROGRAM) -> None:
    """Check that ordinary users can run Apptainer on this machine. If this process is root, also
    make the FUSE device accessible to them.

    ``program`` is the name or path of Apptainer in the settings.

    Raises:
        SetupError: the program is missing, or this process is root and other accounts could replace
            the program; the message says what to do.
    """
    if shutil.which(program) is None:
        if program != PROGRAM:
            raise SetupError(
                f"[containers] apptainer is {program}, and there is no such program here. Set the "
                f"path of an installed one, or remove the setting: then {PROGRAM} is used."
            )
        raise SetupError(f"Apptainer is not installed. {ADVICE}")
    check_program_protected(program)
    if os.geteuid() == 0:
        permit_fuse(progress)


def check_program_protected(program: str) -> None:
    """Raise ``SetupError`` if this process is root and other accounts could replace the program.
    The program is named by the platform's settings, which may belong to an unprivileged account.
    """
    executable = shutil.which(program)
    if os.geteuid() != 0 or executable is None:
        return
    real = Path(executable).resolve()
    for path in (real, *real.parents):
        facts = path.stat()
        others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX
        if facts.st_uid != 0 or others:
            raise SetupError(
                f"[containers] apptainer is {real}, and other accounts could replace {path}: root "
                "does not run it. Make root its owner, or set another program."
            )


def permit_fuse(progress: Progress, device: Path = FUSE) -> None:
    """Permit ordinary users to use the FUSE device, with which they mount images. On machines with
    udev this is the default.
    """
    try:
        mode = stat.S_IMODE(device.stat().st_mode)
    except FileNotFoundError:
        progress(f"There is no {device}, which Apptainer needs: run `modprobe fuse`.")
        return
    if mode & 0o006 != 0o006:
        progress(f"Making {device} accessible to all users, because udev does not do so here.")
        device.chmod(0o666)
