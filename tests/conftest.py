"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is slow at times; how long an example takes is not what these tests are about.
settings.register_profile("aitne", deadline=None)
settings.load_profile("aitne")
