"""Use of this machine's apt: installation of missing packages, and the URL of its Debian mirror."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence

from aitne.adapters.program_runner import join_last_lines, run_program
from aitne.core.errors import SetupError

Progress = Callable[[str], None]
_LOCK_WAIT_S = 300
LOCK_WAIT = ("-o", f"DPkg::Lock::Timeout={_LOCK_WAIT_S}")
_LOCK_LOOK_S = 0.5
_INSTALL_S = 900
_MIRROR_OPTIONS = ("::Proxy", "::Check-Valid-Until", "::Check-Date")


def install_missing(packages: Sequence[str], progress: Progress, *, purpose: str) -> None:
    """Install the missing ones of the packages, without prompts.

    Args:
        packages: names of Debian packages.
        progress: called with a message for the user before the installation.
        purpose: what the packages are needed for; the subject of an error message.

    Raises:
        SetupError: this is not Debian, or apt-get failed.
    """
    if not has_apt():
        raise SetupError(f"{purpose} requires Debian's packages, and this machine has no apt-get.")
    missing = [name for name in packages if not is_installed(name)]
    if not missing:
        return
    progress(f"Installing {', '.join(missing)} …")
    run_apt_get("update")
    run_apt_get("install", "-y", "--no-install-recommends", *missing)


def has_apt() -> bool:
    """Return whether this machine has dpkg and apt-get, as Debian and its derivatives do."""
    return shutil.which("dpkg-query") is not None and shutil.which("apt-get") is not None


def is_installed(package: str) -> bool:
    """Return True if the package is installed and configured."""
    query = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return query.stdout == "installed"


def run_apt_get(*words: str, options: Sequence[str] = (), cwd: str | None = None) -> None:
    """Run ``apt-get`` without prompts, after waiting until other runs of apt have ended.

    Args:
        words: subcommand and its arguments.
        options: options that precede the subcommand.
        cwd: working directory; None: that of this process.

    Raises:
        SetupError: ``apt-get`` failed, or did not end in time.
    """
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    argv = ["apt-get", "-qq", *LOCK_WAIT, *options, *words]
    give_up = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            process = subprocess.run(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                cwd=cwd,
                timeout=_INSTALL_S,
            )
        except subprocess.TimeoutExpired as error:
            raise SetupError(f"apt-get {words[0]} did not end within {_INSTALL_S} s.") from error
        # apt-get waits for dpkg's lock, but not for the lock of the package lists.
        if "Could not get lock" not in process.stderr or time.monotonic() > give_up:
            break
        time.sleep(_LOCK_LOOK_S)
    if process.returncode:
        output = join_last_lines((process.stderr or process.stdout).splitlines())
        raise SetupError(f"apt-get {words[0]} failed ({process.returncode}): {output}")


def read_mirror_url() -> str:
    """Return the URL of the Debian mirror that this machine's apt is configured with.

    Raises:
        SetupError: apt has no mirror.
    """
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    addresses = run_program(argv, env=dict(os.environ)).split()
    if not addresses:
        raise SetupError(
            "apt has no Debian mirror on this machine: `apt-get indextargets` lists none."
        )
    return addresses[0]


def read_mirror_options() -> list[str]:
    """Return this machine's apt options in the section ``Acquire`` that concern access to the
    mirror (such as proxies) and the accepted age of its index, one line for each option.
    """
    argv = ["apt-config", "dump", "--no-empty", "--format", '%F "%v"%n', "Acquire"]
    return [
        line
        for line in run_program(argv, env=dict(os.environ)).splitlines()
        if line.partition(" ")[0].endswith(_MIRROR_OPTIONS)
    ]
