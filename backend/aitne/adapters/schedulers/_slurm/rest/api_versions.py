"""API versions of slurmrestd that the platform supports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aitne.core.errors import SetupError

_PATH = re.compile(r"/slurm/v0\.0\.([0-9]{1,4})/job/submit")


@dataclass(frozen=True, slots=True)
class Api:
    """Version of slurmrestd's API, with the property whether it reports quickly that no job has
    changed.
    """

    number: int
    """The number N in ``v0.0.N``."""
    tells_unchanged: bool
    """True if ``jobs?update_time=`` is cheap while nothing has changed, whatever the length of the
    queue: 2 ms with v0.0.42. In older versions, 22.05 reads all jobs first (127 ms with 10,000),
    and v0.0.40 and v0.0.41 of 24.11 reject a number of seconds."""

    @property
    def prefix(self) -> str:
        """Return the prefix of the URL paths of this version."""
        return f"/slurm/v0.0.{self.number}"

    def __str__(self) -> str:
        return f"v0.0.{self.number}"


KNOWN = (
    Api(38, tells_unchanged=False),
    Api(40, tells_unchanged=False),
    Api(41, tells_unchanged=False),
    Api(42, tells_unchanged=True),
    Api(43, tells_unchanged=True),
    Api(44, tells_unchanged=True),
    Api(45, tells_unchanged=True),
)
"""Supported versions; 22.05 serves 36-38, 24.11 serves 40-42, 26.05 serves 42-45."""
SPOKEN = 42
"""Version that the platform's code uses; ``version_conversion`` converts older ones to it. Newer versions have
only added fields so far (compared with the OpenAPI document of 26.05).
"""


def parse_served_versions(document: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the version numbers in an OpenAPI document of slurmrestd, in ascending order."""
    paths = document.get("paths")
    names = paths if isinstance(paths, Mapping) else ()
    return tuple(sorted({int(match[1]) for path in names if (match := _PATH.fullmatch(str(path)))}))


def choose_api_version(offered: tuple[int, ...]) -> Api:
    """Return the newest of the ``offered`` version numbers that the platform supports.

    Raises:
        SetupError: the platform supports none of them.
    """
    apis = {api.number: api for api in KNOWN}
    common = sorted(apis.keys() & set(offered))
    if not common:
        theirs = ", ".join(f"v0.0.{number}" for number in offered) or "none at all"
        ours = ", ".join(str(api) for api in KNOWN)
        raise SetupError(
            f"slurmrestd serves these API versions: {theirs}; the platform supports {ours}. "
            "Start slurmrestd with one of them (its option -s), or leave slurm.rest_url unset to use "
            "only Slurm's commands."
        )
    return apis[common[-1]]
