"""Use of a bundle: a folder with all packages of the platform's environments, for hosts without
internet access. ``aitne admin bundle`` creates it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aitne.core.errors import SetupError

MANIFEST = "bundle.json"
WHEELS, PROXY = "wheels", "proxy"
VARIABLE = "AITNE_BUNDLE"
"""Environment variable with the bundle's folder, while environments are created from it."""


def get_bundle_kind() -> dict[str, str]:
    """Return the properties that a bundle and the host that uses it must have in common."""
    return {"python": f"{sys.version_info[0]}.{sys.version_info[1]}", "machine": os.uname().machine}


@contextmanager
def use_bundle(folder: Path | None) -> Iterator[None]:
    """Restrict pip, uv and the creation of environments to the bundle in ``folder`` during the
    ``with`` block. None: restrict nothing.

    Raises:
        SetupError: the folder is not a bundle, or the bundle is for another Python or processor.
    """
    if folder is None:
        yield
        return
    folder = folder.expanduser().absolute()
    _check_bundle(folder)
    variables = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / WHEELS),
        VARIABLE: str(folder),
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def get_wheel(folder: Path) -> Path:
    """Return the platform's wheel in the bundle. Raises ``SetupError`` if there is none."""
    wheels = sorted((folder / WHEELS).glob("aitne-*.whl"))
    if len(wheels) != 1:
        raise SetupError(f"The bundle {folder} has {len(wheels)} wheels of the platform, not one.")
    return wheels[0]


def find_proxy_packages() -> Path | None:
    """Return the folder with the proxy's packages in the bundle in use; None if no bundle is in
    use.
    """
    folder = os.environ.get(VARIABLE)
    return None if folder is None else Path(folder) / PROXY


def get_bundle_variables() -> dict[str, str]:
    """Return the environment variables that make another program use the bundle in use; empty if no
    bundle is in use.
    """
    names = ("PIP_NO_INDEX", "PIP_FIND_LINKS", VARIABLE)
    return {name: os.environ[name] for name in names} if VARIABLE in os.environ else {}


def _check_bundle(folder: Path) -> None:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise SetupError(
            f"{folder} is not an unpacked bundle: it has no readable {MANIFEST}. Unpack the file of "
            "`aitne admin bundle` with `tar -xf`, and name the folder."
        ) from error
    for name, value in get_bundle_kind().items():
        if manifest.get(name) != value:
            raise SetupError(
                f"The bundle {folder} is for {name} {manifest.get(name)}; this is {name} {value}. Make one "
                "on a machine like this, with the same Python."
            )
