"""Start of a process that its supervisor holds."""

from __future__ import annotations

import os

import pytest

from aitne.local_system import held_process_start


def test_process_released_before_it_is_loaded_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    held = held_process_start.HeldStart()
    monkeypatch.setenv(held_process_start.VARIABLE, str(os.dup(held.descriptor)))
    held.close_child_end()
    held.release()
    held_process_start.wait_for_release()
    assert not held_process_start.is_held()
