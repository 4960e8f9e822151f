"""The programs and services that tests need on a machine.

A test is skipped with a reason where one is missing; `AITNE_REQUIRE` makes that a failure.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
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

PACKAGES = {
    "bonsai": ("ldap", "pip install 'aitne[ldap]'"),
    "horovod": ("horovod", "scripts/horovod_wheel.py"),
    "ipykernel": ("notebook", "pip install 'aitne[notebook]'"),
    "ipyparallel": ("notebook", "pip install 'aitne[notebook]'"),
    "numpy": ("torch", "make distrib"),
    "torch": ("torch", "make distrib"),
}
"""Python packages that not every environment for tests has, each with its requirement and how to install it."""


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


def need_package(name: str) -> None:
    """Skip the test where this environment lacks one of `PACKAGES`."""
    requirement, remedy = PACKAGES[name]
    if importlib.util.find_spec(name) is None:
        lacking(requirement, f"needs {name}: {remedy}")


def need_horovod() -> None:
    """Skip the test where this environment has no real Horovod, or the machine no mpirun."""
    need_package("horovod")
    if shutil.which("mpirun") is None:
        lacking("horovod", "needs mpirun: apt-get install openmpi-bin")


class _Lacking(pytest.Module):
    """A module that is not imported, because it would not work."""

    package = ""

    def collect(self) -> list[pytest.Item]:
        need_package(self.package)
        return []


def skip_modules_without(
    package: str,
) -> Callable[[Path, pytest.Collector], pytest.Module | None]:
    """Return the hook `pytest_pycollect_makemodule` of a folder whose modules import one of `PACKAGES`."""

    def make_module(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        if importlib.util.find_spec(package) is not None:
            return None
        module = _Lacking.from_parent(parent, path=module_path)
        module.package = package
        return module

    return make_module
