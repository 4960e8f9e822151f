"""Files of this package, for programs that copy it to where it is not installed: into an archive that
starts ranks, an image, or a folder that nodes share.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from aitne_train._native import kernel_build

_PACKAGE = Path(__file__).parent
_LAUNCHER = ("launcher", "topology")
"""Subpackages that start ranks under any Python from 3.9 on, without other packages."""
# The C sources come along, to compile the kernel where the binary does not fit.
_SUFFIXES = frozenset({".c", ".h", ".py", ".so", ".typed"})


def collect_launcher_files() -> dict[str, bytes]:
    """Return the modules of the launcher and of topologies, by their paths in an archive. Archives
    run with ``aitne_train.launcher.main``.
    """
    paths = (path for name in _LAUNCHER for path in (_PACKAGE / name).rglob("*.py"))
    # Without the API, which is not in the archive.
    return {f"{_PACKAGE.name}/__init__.py": b"", **_read_files(paths)}


def collect_all_files() -> dict[str, bytes]:
    """Return all files of the package by their paths, with its C sources and the compiled kernels
    that are in its folder.
    """
    return _read_files(path for path in _PACKAGE.rglob("*") if path.suffix in _SUFFIXES)


def collect_files_with_kernel() -> dict[str, bytes]:
    """Return all files of the package by their paths, with the kernel for this type of processor,
    which is compiled if it is missing; without it if it cannot be compiled.
    """
    try:
        kernel = kernel_build.find_or_build_library()
    except kernel_build.BuildError:
        return collect_all_files()
    return {**collect_all_files(), f"{_PACKAGE.name}/_native/{kernel.name}": kernel.read_bytes()}


def _read_files(paths: Iterable[Path]) -> dict[str, bytes]:
    return {
        path.relative_to(_PACKAGE.parent).as_posix(): path.read_bytes()
        for path in sorted(paths)
        if path.is_file()
    }
