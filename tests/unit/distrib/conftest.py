"""``aitne.distrib`` needs torch, so its unit tests do."""

from tests.distrib.conftest import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
