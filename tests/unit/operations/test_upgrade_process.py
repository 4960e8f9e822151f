"""Start of a platform by an upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.operations.upgrade.platform_service import Service, select_start_environment


def test_start_that_is_interrupted_has_ended_before_the_upgrade_goes_on(tmp_path: Path) -> None:
    program, started = tmp_path / "aitne", tmp_path / "started"
    program.write_text(f"#!/bin/sh\nsleep 0.6\ntouch {started}\n")
    program.chmod(0o755)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Service(tmp_path, None).start(program, interrupted)
    assert started.exists(), "a return to the earlier release would meet a platform that starts"


def test_sources_of_settings_that_a_later_release_has_written_are_read() -> None:
    sources = '{"port": ["environment", "AITNE_PORT", "of a later release"]}'
    base = {"AITNE_SOURCES": sources, "AITNE_PORT": "8001", "AITNE_BIND": "::", "PATH": "/bin"}
    assert select_start_environment(base) == {"PATH": "/bin", "AITNE_PORT": "8001"}
