from __future__ import annotations

import pytest


@pytest.fixture
def kill_rounds(request: pytest.FixtureRequest) -> int:
    """How often each process is killed; the whole proof is ``--kill-rounds 10``."""
    rounds: int = request.config.getoption("--kill-rounds")
    return rounds
