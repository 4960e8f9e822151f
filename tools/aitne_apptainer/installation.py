"""Installation of Apptainer for development, by root on Debian or a derivative.

Debian 12 and 13 have no package of it. There the package of Debian sid is downloaded with a
separate configuration of apt, so that the machine's apt sources stay unchanged. If the machine's C
library is older than the one that the package was built with, the programs are adapted to it
(``elf``) and packed again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import tempfile
from pathlib import Path

from aitne.adapters import apt_installation
from aitne.adapters.apt_installation import Progress
from aitne.adapters.images.prerequisites import ADVICE, PROGRAM, require_apptainer
from aitne.adapters.program_runner import run_program
from aitne.core.errors import SetupError
from aitne.local_system.platform_folders import cache_dir
from aitne_apptainer import glibc_compatibility

HELPERS = (
    "squashfs-tools",
    "squashfuse",
    "fuse2fs",
    "fuse-overlayfs",
    "uidmap",
    "fakeroot",
    "e2fsprogs",
)
"""Packages that Apptainer needs for ordinary users; Apptainer's own package only recommends some of
them.
"""
SUITE = "sid"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_OURS = "~aitne1"
_PROGRAM_FOLDERS = ("usr/bin", "usr/lib")


def ensure_apptainer(progress: Progress) -> None:
    """Install Apptainer if it is missing, and check that ordinary users can run it.

    Raises:
        SetupError: Apptainer is missing and cannot be installed here; the message says what to do.
    """
    if shutil.which(PROGRAM) is None:
        _install_apptainer(progress)
    require_apptainer(progress)


def _install_apptainer(progress: Progress) -> None:
    if os.geteuid() != 0:
        raise SetupError(
            "Apptainer is not installed, and only root can install it: run `sudo make apptainer`."
        )
    if not apt_installation.has_apt():
        raise SetupError(f"Apptainer is not installed, and there is no apt-get here. {ADVICE}")
    apt_installation.run_apt_get("update")
    if _in_archive():
        progress("Installing Apptainer …")
        apt_installation.run_apt_get("install", "-y", "--no-install-recommends", PROGRAM, *HELPERS)
    else:
        package = repack_apptainer_package(progress)
        progress(f"Installing {package.name} …")
        apt_installation.run_apt_get(
            "install", "-y", "--no-install-recommends", str(package), *HELPERS
        )
    if shutil.which(PROGRAM) is None:
        raise SetupError(f"Apptainer was installed, but there is no {PROGRAM} in PATH. {ADVICE}")


def _in_archive() -> bool:
    """Return True if the configured apt sources offer Apptainer, not only a package that was
    installed from a file.
    """
    listing = run_program(["apt-cache", "madison", PROGRAM], env=dict(os.environ))
    return any(line.split("|")[0].strip() == PROGRAM for line in listing.splitlines())


def repack_apptainer_package(progress: Progress) -> Path:
    """Return the path of Debian sid's Apptainer package, adapted to this machine's C library. The
    result is cached.

    Raises:
        SetupError: this is not Debian on x86-64, or a part of the package cannot be adapted.
    """
    have = _read_libc_version()
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian" or platform.machine() != "x86_64" or not KEYRING.exists():
        raise SetupError(
            f"{release.get('PRETTY_NAME', 'This system')} has no package of Apptainer, and that of "
            f"Debian {SUITE} can only be taken on Debian for x86-64. {ADVICE}"
        )
    folder = cache_dir() / "apptainer"
    pattern = f"apptainer_*{_OURS}_libc{'.'.join(map(str, have))}.deb"
    made = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    if made:
        return made[-1]
    folder.mkdir(parents=True, exist_ok=True)
    # Not below the cache, which may be closed to the user that apt-get downloads as.
    with tempfile.TemporaryDirectory(prefix="aitne-apptainer-") as scratch:
        progress(f"Fetching Apptainer from Debian {SUITE} …")
        fetched = _download_package(Path(scratch))
        progress(f"Adapting it to this machine's C library {'.'.join(map(str, have))} …")
        version = _refit_package(fetched, Path(scratch, "package"), have)
        target = folder / pattern.replace("*", version.replace(":", "."))
        partial = target.with_suffix(f".{os.getpid()}.partial")
        packing = ("--root-owner-group", "-Zgzip", "-z1", "--build")
        try:
            _dpkg_deb(*packing, str(Path(scratch, "package")), str(partial))
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return target


def _download_package(scratch: Path) -> Path:
    """Download the package with a separate configuration of apt, and return its path."""
    scratch.chmod(0o755)
    for name in ("lists/partial", "archives/partial", "parts"):
        (scratch / name).mkdir(parents=True)
    sources = scratch / "sources.list"
    sources.write_text(
        f"deb [signed-by={KEYRING}] {apt_installation.read_mirror_url()} {SUITE} main\n"
    )
    view = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": scratch / "parts",
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch,
        "Dir::Cache::archives": "archives",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in view.items() for word in ("-o", f"{name}={value}")]
    apt_installation.run_apt_get("update", options=options)
    apt_installation.run_apt_get("download", PROGRAM, options=options, cwd=str(scratch))
    packages = list(scratch.glob("apptainer_*.deb"))
    if len(packages) != 1:
        raise SetupError(f"Debian {SUITE} has no Apptainer at this machine's mirror. {ADVICE}")
    return packages[0]


def _refit_package(package: Path, tree: Path, have: glibc_compatibility.Version) -> str:
    """Unpack the package into ``tree``, adapt the programs that need a newer C library than
    ``have``, and return the version of Debian's package.
    """
    _dpkg_deb("--raw-extract", str(package), str(tree))
    changed = False
    for path in _find_elf_programs(tree):
        try:
            changed |= glibc_compatibility.unpin_file(path, have)
        except glibc_compatibility.NotMovable as error:
            raise SetupError(
                f"Debian {SUITE}'s Apptainer does not run on this machine's C library: "
                f"{str(error).replace(str(tree), '')}. {ADVICE}"
            ) from error
    control = tree / "DEBIAN" / "control"
    text, version = refit_control(control.read_text(encoding="utf-8"), have, changed=changed)
    control.write_text(text, encoding="utf-8")
    _write_sums(tree)
    return version


def refit_control(
    text: str, have: glibc_compatibility.Version, *, changed: bool
) -> tuple[str, str]:
    """Return the text of the adapted package's control file, and the version of Debian's package.

    ``text`` is the original control file, ``have`` the version of this machine's C library.
    ``changed`` is True if programs of the package were changed; otherwise the text is returned
    unchanged.

    Raises:
        SetupError: ``text`` names no version.
    """
    match = re.search(r"^Version: (\S+)$", text, re.MULTILINE)
    if match is None:
        raise SetupError(f"The package of Debian {SUITE} names no version. {ADVICE}")
    if not changed:
        return text, match[1]
    libc_version = ".".join(map(str, have))
    text = text.replace(match[0], f"Version: {match[1]}{_OURS}", 1)
    text = re.sub(r"libc6 \(>= 2\.\d+\)", f"libc6 (>= {libc_version})", text)
    return re.sub(r"^(?:Static-)?Built-Using:.*\n(?: .*\n)*", "", text, flags=re.MULTILINE), match[
        1
    ]


def _find_elf_programs(tree: Path) -> list[Path]:
    programs = []
    for folder in _PROGRAM_FOLDERS:
        for path in sorted((tree / folder).rglob("*")):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as stream:
                    if stream.read(4) == glibc_compatibility.MAGIC:
                        programs.append(path)
    return programs


def _write_sums(tree: Path) -> None:
    lines = []
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree)
        if path.is_symlink() or not path.is_file() or name.parts[0] in ("DEBIAN", "etc"):
            continue
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        lines.append(f"{digest}  {name}\n")
    (tree / "DEBIAN" / "md5sums").write_text("".join(lines), encoding="utf-8")


def _dpkg_deb(*words: str) -> None:
    run_program(["dpkg-deb", *words], env=dict(os.environ), timeout_s=300)


def _read_libc_version() -> glibc_compatibility.Version:
    """Return the version of this machine's C library (confstr(3))."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        name = ""
    match = re.fullmatch(r"glibc (\d+)\.(\d+).*", name)
    if match is None:
        raise SetupError(f"This machine has another C library than glibc. {ADVICE}")
    return int(match[1]), int(match[2])
