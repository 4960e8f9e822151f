"""Folders of the platform on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_dir() -> Path:
    """Return the default data directory ``$XDG_DATA_HOME/aitne``
    (https://specifications.freedesktop.org/basedir-spec)."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "aitne"


def cache_dir() -> Path:
    """Return the cache directory ``$XDG_CACHE_HOME/aitne``, by default ``~/.cache/aitne``. It
    contains environments and downloads, which can be created again.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aitne"


def get_packaged_path(name: str) -> Path:
    """Return the path of a file or folder that is part of the platform: in a wheel, package data;
    in a checkout, a path below the repository's root.
    """
    package = Path(__file__).parents[1]
    packaged = package / "_data" / name
    return packaged if packaged.exists() else package.parents[1] / name
