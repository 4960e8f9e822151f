"""Marks of modules whose tests depend on real time, with the reasons that a rerun is listed with."""

from __future__ import annotations

import pytest

BROWSER = pytest.mark.realtime("waits for pages of a real browser, which a busy machine delays")
MACHINES = pytest.mark.realtime("boots machines and waits for their services")
PLATFORM = pytest.mark.realtime(
    "waits for the processes of a whole platform, which a busy machine delays"
)
PROCESSES = pytest.mark.realtime("waits for real processes to start, answer and end")
RANKS = pytest.mark.realtime("waits for several ranks on fewer processors")
SLURM = pytest.mark.realtime("waits for Slurm's daemons to act on jobs")
