"""Build of the compiled collectives (here called the kernel) from their C sources.

No installation compiles it. The first rank that needs it on a machine compiles it into the user's
cache folder; ``aitne-train kernel`` compiles it into the package, for all users of an installation
or image.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("collectives.c", "reduce.c", "reduce.h")
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=default", "-Wall", "-Wextra")
_TIMEOUT_S = 120.0


class BuildError(Exception):
    """Error: the kernel cannot be compiled; the message states the reason."""


def library_name() -> str:
    """Return the file name of the kernel's library, which contains a hash of its C sources and of
    the processor type, so that a library of older sources or for another processor is never loaded.
    """
    digest = hashlib.sha256(b"\0".join((HERE / name).read_bytes() for name in SOURCES))
    return f"shm-{platform.machine()}-{digest.hexdigest()[:12]}.so"


def cache_folder() -> Path:
    """Return the folder of the kernels that this user's ranks have compiled."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "aitne" / "kernels"


def find_or_build_library() -> Path:
    """Return the path of the kernel's library: the one of the package, or the one in the user's
    cache folder, which is compiled if it is missing. Ranks that start together wait for the first.

    Raises:
        BuildError: there is none, and it cannot be compiled.
    """
    name, folder = library_name(), cache_folder()
    if (HERE / name).is_file():
        return HERE / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise BuildError(f"other accounts can write to {folder}: chmod 700 {folder}")
        with _lock_folder(folder):
            return folder / name if (folder / name).is_file() else build_library(folder)
    except OSError as error:
        raise BuildError(f"{folder} cannot be written: {error}") from error


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time build in a folder, where its file system has locks."""
    with (folder / ".lock").open("w") as lock:
        with contextlib.suppress(OSError):  # without locks each rank builds, and the last one stays
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_library(folder: Path = HERE) -> Path:
    """Compile the kernel into ``folder`` and return the path of the library; remove older builds
    from the folder.

    The compiler is the environment variable ``CC``, or ``cc`` if it is not set.

    Raises:
        BuildError: there is no compiler, the compiler failed, or ``folder`` cannot be written.
    """
    if sys.platform != "linux":
        raise BuildError("the kernel is for Linux only")
    compiler = _find_compiler()
    target = folder / library_name()
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
            made = Path(work) / target.name
            _compile(compiler, made)
            made.replace(target)
        for old in folder.glob(f"shm-{platform.machine()}-*.so"):
            if old != target:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"{folder} cannot be written: {error}") from error
    return target


def _find_compiler() -> list[str]:
    command = shlex.split(os.environ.get("CC", ""))
    for argv in [command] if command else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(argv[0]):
            return argv
    raise BuildError(
        f"there is no C compiler ({shlex.join(command) if command else 'cc'}); "
        "install one, such as Debian's gcc and libc6-dev"
    )


def _compile(compiler: list[str], target: Path) -> None:
    sources = [str(HERE / name) for name in SOURCES if name.endswith(".c")]
    output = ""
    # Compilers and C libraries without function variants still produce a plain build.
    for variants in ([], ["-DAITNE_NO_CLONES"]):
        argv = [*compiler, *FLAGS, *variants, "-o", str(target), *sources]
        try:
            process = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BuildError(f"{shlex.join(argv)} took over {_TIMEOUT_S:g} s") from None
        if process.returncode == 0:
            return
        output = process.stderr.strip()
    raise BuildError(f"{shlex.join(compiler)} failed:\n{output}")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the kernel in the folder of its sources and print the path of the library; return the
    exit code: 0, or 1 on failure.
    """
    argparse.ArgumentParser(
        prog="aitne-train kernel",
        description="Compile the shared-memory collectives into this installation, for all of its users.",
    ).parse_args(argv)
    try:
        sys.stdout.write(f"{build_library()}\n")
    except BuildError as error:
        sys.stderr.write(f"No shared-memory kernel: {error}\n")
        return 1
    return 0
