"""A whole platform for tests that need one."""

from __future__ import annotations

import os

import pytest

from aitne.core.errors import SetupError
from aitne.supervisor import environments


def environments_or_skip() -> None:
    """Make the environments beside the platform's own; skip where they cannot be had.

    With ``hub`` in ``AITNE_REQUIRE`` that is a failure.
    """
    try:
        environments.ensure(print)
    except SetupError as error:
        if "hub" in os.environ.get("AITNE_REQUIRE", "").split(","):
            raise
        pytest.skip(f"JupyterHub's environments cannot be made: {error.message}")
