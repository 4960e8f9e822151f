"""Versions of slurmrestd's interface and their capabilities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aitne.core.errors import SetupError

_PATH = re.compile(r"/slurm/v0\.0\.([0-9]{1,4})/job/submit")


@dataclass(frozen=True, slots=True)
class Api:
    """One version of the interface, and what it does well."""

    number: int
    """The last part of ``v0.0.N``."""
    tells_unchanged: bool
    """``jobs?update_time=`` costs next to nothing while nothing has changed, whatever the queue
    holds: 2 ms with v0.0.42. Before, 22.05 asks for all jobs first (127 ms with 10,000), and
    24.11's v0.0.40 and v0.0.41 refuse a number of seconds."""

    @property
    def prefix(self) -> str:
        """The prefix of this version's paths."""
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
"""22.05 serves 36-38, 24.11 serves 40-42, 26.05 serves 42-45."""
SPOKEN = 42
"""The version that the rest of the code speaks; ``steps`` leads to it from the older ones. Those after
it have only added fields so far (compared with 26.05's own OpenAPI document)."""


def served(document: Mapping[str, Any]) -> tuple[int, ...]:
    """The versions in an OpenAPI document of slurmrestd, oldest first."""
    paths = document.get("paths")
    names = paths if isinstance(paths, Mapping) else ()
    return tuple(sorted({int(match[1]) for path in names if (match := _PATH.fullmatch(str(path)))}))


def negotiate(offered: tuple[int, ...]) -> Api:
    """The newest version that both sides know.

    Raises:
        SetupError: none of them is known.
    """
    known = {api.number: api for api in KNOWN}
    common = sorted(known.keys() & set(offered))
    if not common:
        theirs = ", ".join(f"v0.0.{number}" for number in offered) or "none at all"
        ours = ", ".join(str(api) for api in KNOWN)
        raise SetupError(
            f"slurmrestd serves these versions of its interface: {theirs}; known here are {ours}. "
            "Start slurmrestd with one of them (its option -s), or leave slurm.rest_url unset to work "
            "with Slurm's commands alone."
        )
    return known[common[-1]]
