"""``aitne_train`` needs torch, so its unit tests do."""

from runtime.tests.ranks.conftest import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
