"""Tests of the source of each setting, as administrators read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aitne.local_system import settings_report
from aitne.local_system.settings_loader import load_settings
from aitne.local_system.settings_report import MASK, SourceKind, describe_settings, find_sources

TOML = """\
title = "Lab"
port = 9000

[limits]
max_nodes = 4
max_duration = "2d"

[[storage.areas]]
name = "scratch"
path = "/scratch/{user}"
"""


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AITNE_CONFIG", "AITNE_DATA_DIR", settings_report.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "aitne.toml").write_text(TOML)
    return tmp_path


def test_each_setting_says_what_set_it(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITNE_LIMITS__MAX_NODES", "8")
    monkeypatch.setenv("AITNE_CLUSTER", "alpha")
    monkeypatch.setenv("AITNE_BIND", "127.0.0.2")
    found = find_sources(load_settings(data_dir, port=7000, bind="127.0.0.3"))
    file = data_dir / "aitne.toml"
    assert found["title"] == (SourceKind.FILE, f"{file}:1")
    assert found["port"] == (SourceKind.COMMAND_LINE, None)
    assert found["bind"] == (SourceKind.COMMAND_LINE, None)
    assert found["cluster"] == (SourceKind.ENVIRONMENT, "AITNE_CLUSTER")
    assert found["limits.max_nodes"] == (SourceKind.ENVIRONMENT, "AITNE_LIMITS__MAX_NODES")
    assert found["limits.max_duration"] == (SourceKind.FILE, f"{file}:6")
    assert found["storage.areas"] == (SourceKind.FILE, f"{file}:8")
    assert "poll_interval_s" not in found


def test_a_child_of_the_supervisor_shows_what_that_one_was_told(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = settings_report.format_sources(load_settings(data_dir))
    monkeypatch.setenv(settings_report.VARIABLE, sources)
    monkeypatch.setenv("AITNE_TITLE", "Lab")
    by_name = {each.name: each for each in describe_settings(load_settings(data_dir))}
    assert by_name["title"].source is SourceKind.FILE
    assert by_name["limits.max_duration"].value == "172800"
    assert by_name["limits.max_duration"].default == "604800"
    units = {name: by_name[name].unit for name in ("limits.max_duration", "local.memory", "port")}
    assert units == {"limits.max_duration": "seconds", "local.memory": "bytes", "port": None}
    assert by_name["trees.max_bytes"].unit == "bytes"
    assert by_name["retention.keep_jobs"].unit == "seconds"
    assert by_name["bind"].source is SourceKind.DEFAULT
    assert json.loads(by_name["storage.areas"].value or "")[0]["name"] == "scratch"
    assert all(each.description for each in by_name.values())


def test_secrets_are_masked(data_dir: Path) -> None:
    settings = load_settings(data_dir, database="postgresql://aitne:hunter2@db/aitne")
    found = {each.name: each.value for each in describe_settings(settings)}
    assert found["database"] == f'"postgresql://{MASK}@db/aitne"'
    assert "hunter2" not in json.dumps(found)
