"""What the nodes run, written where several platforms look for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.adapters.node_software import own_software, write_own_software


def test_two_platforms_may_write_it_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = Path.mkdir

    def after_another(self: Path, mode: int = 0o777, **options: bool) -> None:
        make(self, parents=True, exist_ok=True)
        make(self, mode, **options)

    monkeypatch.setattr(Path, "mkdir", after_another)
    write_own_software()
    assert Path(own_software().spawner[-1]).is_file()
