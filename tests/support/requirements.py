"""The programs and services that tests need on a machine.

A test is skipped with a reason where one is missing; `AITNE_REQUIRE` makes that a failure.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from typing import NoReturn

import pytest

NAMES = (
    "postgres",
    "hub",
    "browser",
    "machines",
    "slurm",
    "apptainer",
    "docker",
    "lmod",
    "ssh",
    "notebook",
    "torch",
    "mpi",
    "horovod",
    "ldap",
    "oidc",
    "pam",
    "proxies",
    "prometheus",
    "zabbix",
    "ansible",
)
"""The names that `AITNE_REQUIRE` may have, separated by commas."""
LACKING = re.compile(r"\(lacks (?P<name>[a-z]+)\)")
"""What the reason of a skipped test says of its requirement."""


def required() -> frozenset[str]:
    """Return the requirements whose tests must not be skipped, from `AITNE_REQUIRE`.

    Raises:
        pytest.UsageError: a name belongs to no requirement.
    """
    found = {name.strip() for name in os.environ.get("AITNE_REQUIRE", "").split(",")} - {""}
    if unknown := sorted(found - set(NAMES)):
        raise pytest.UsageError(
            f"AITNE_REQUIRE has {', '.join(unknown)}; known are {', '.join(NAMES)}."
        )
    return frozenset(found)


def lacking(name: str, reason: str) -> NoReturn:
    """Skip the test because the machine lacks that; a failure where it is required."""
    assert name in NAMES, name
    if name in required():
        pytest.fail(f"{reason} (AITNE_REQUIRE has {name})", pytrace=False)
    pytest.skip(f"{reason} (lacks {name})")


def need_torch() -> None:
    """Skip the test where this environment has no PyTorch."""
    if importlib.util.find_spec("torch") is None:
        lacking("torch", "needs torch: make distrib")


def need_horovod() -> None:
    """Skip the test where this environment has no real Horovod, or the machine no mpirun."""
    if importlib.util.find_spec("horovod") is None or shutil.which("mpirun") is None:
        lacking("horovod", "needs the real Horovod and mpirun: scripts/horovod_wheel.py")
