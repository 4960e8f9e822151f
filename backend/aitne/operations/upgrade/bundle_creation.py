"""A bundle: one file with all packages of the platform, for a host without internet."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import aitne
from aitne.core.errors import Conflict, InvalidInput, SetupError
from aitne.local_system.platform_folders import get_packaged_path
from aitne.operations.upgrade.releases import installed_extras, make_find_links_options
from aitne.operations.upgrade.versions import parse_wheel_version
from aitne.supervisor import software_environments
from aitne.supervisor.offline_bundle import MANIFEST, PROXY, WHEELS, get_bundle_kind

Progress = Callable[[str], None]


def create_bundle(output: Path, *, wheel: Path | None, progress: Progress) -> int:
    """Write a bundle of this release, with its installed extras, to the new file ``output``; return its size in bytes.

    Args:
        output: the file, a tar archive with one folder.
        wheel: the wheel of this release; None: the package index has it.
        progress: called with one line per step.

    Raises:
        Conflict: the file exists.
        InvalidInput: the wheel is of another release.
        SetupError: packages cannot be downloaded, or the file cannot be written.
    """
    if output.exists():
        raise Conflict(f"{output} exists. Name a new file.")
    extras = ",".join(installed_extras())
    requirement = f"aitne[{extras}]=={aitne.__version__}"
    if wheel is not None:
        if str(parse_wheel_version(wheel)) != aitne.__version__:
            raise InvalidInput(
                f"{wheel.name} is not of release {aitne.__version__}, which makes this bundle: its "
                "environments may need other packages. Use the command of that release."
            )
        requirement = f"aitne[{extras}] @ {wheel.absolute().as_uri()}"
    name = f"aitne-bundle-{aitne.__version__}"
    try:
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as temporary:
            folder = Path(temporary) / name
            (folder / WHEELS).mkdir(parents=True)
            pinned = [
                "--constraint",
                str(get_packaged_path("constraints.txt")),
                *make_find_links_options(requirement),
                requirement,
            ]
            _build_wheels(folder / WHEELS, "the platform", pinned, progress)
            for env in ("hub", "session"):
                lock = software_environments.LOCKS / f"{env}.txt"
                _build_wheels(
                    folder / WHEELS, f"the {env} environment", ["-r", str(lock)], progress
                )
            progress("Fetching the packages of the proxy.")
            software_environments.install_proxy(folder / PROXY)
            facts = {"release": aitne.__version__, **get_bundle_kind()}
            (folder / MANIFEST).write_text(json.dumps(facts, indent=1) + "\n")
            progress(f"Writing {output}.")
            packed = Path(temporary) / "packed"
            with tarfile.open(packed, "w") as archive:
                archive.add(folder, arcname=name)
            packed.replace(output)
    except OSError as error:
        raise SetupError(
            f"The bundle cannot be written: {error.filename or output}: {error.strerror or error}. "
            "Free some space, or name another folder."
        ) from error
    return output.stat().st_size


def _build_wheels(folder: Path, title: str, requirements: list[str], progress: Progress) -> None:
    progress(f"Fetching the packages of {title}.")
    options = ["--disable-pip-version-check", "--no-input", "--quiet", "--prefer-binary"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), *requirements],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n  ".join(done.stderr.strip().splitlines()[-8:])
        raise SetupError(
            f"The packages of {title} could not be fetched:\n  {last}\nCheck that this machine reaches "
            "its package indexes and that the disk is not full."
        )
