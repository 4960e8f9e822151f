"""Release numbers, and which upgrades are supported."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from aitne.core.errors import InvalidInput

_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_WHEEL = re.compile(r"aitne-(?P<version>[^-]+)-py3-none-[A-Za-z0-9_.]+\.whl")


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """Number of a release of the platform, ``MAJOR.MINOR.PATCH``."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse a release number. Raises ``InvalidInput``."""
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"{text!r} is not the number of a release. Write it as MAJOR.MINOR.PATCH, such as "
                "0.2.0."
            )
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_wheel_version(path: Path) -> Version:
    """Return the release in the name of a wheel of the platform. Raises ``InvalidInput``."""
    match = _WHEEL.fullmatch(path.name)
    if match is None or not zipfile.is_zipfile(path):
        raise InvalidInput(
            f"{path} is not a wheel of the platform. Name a file such as "
            "aitne-0.2.0-py3-none-any.whl."
        )
    return Version.parse(match["version"])


def check_upgrade_path(present: Version, target: Version) -> None:
    """Check that the platform can be upgraded from ``present`` to ``target`` in one step.

    Raises:
        InvalidInput: it cannot; the message says what to do.
    """
    if target == present:
        raise InvalidInput(f"Release {present} is installed already.")
    if target < present:
        raise InvalidInput(
            f"Release {target} is older than the installed {present}. Restore a backup from before "
            "the upgrade instead: `aitne admin restore`."
        )
    if target.major == present.major and target.minor > present.minor + 1:
        raise InvalidInput(
            f"An upgrade from {present} to {target} would skip a minor release, and agents, broker and "
            f"database are prepared for one step only. Upgrade to "
            f"{present.major}.{present.minor + 1} first."
        )
    if target.major > present.major and (target.major > present.major + 1 or target.minor > 0):
        raise InvalidInput(
            f"An upgrade from {present} to {target} would skip a release. Upgrade to the last release "
            f"of {present.major}.x first, then to {present.major + 1}.0."
        )
