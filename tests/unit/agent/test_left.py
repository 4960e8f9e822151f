"""Tests of the files that programs leave for their agent, which does not trust them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aitne.agent import multi_node_run, untrusted_files
from tests.unit.agent.test_parts import spec_in


@pytest.mark.parametrize("content", ["[" * 4_000, '{"a":' * 4_000, "[]", "", "null", "\xff"])
def test_unusable_file_of_program_is_ignored(tmp_path: Path, content: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(content, encoding="latin-1")
    assert untrusted_files.read_json_object(str(path), 1 << 20) is None


def test_files_of_program_are_read_without_waiting_or_following_links(tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "there.json")
    os.mkfifo(tmp_path / "pipe")
    assert [
        untrusted_files.read_json_object(str(tmp_path / name), 10) for name in ("link", "pipe", ".")
    ] == [None] * 3
    assert untrusted_files.read_json_object(str(tmp_path / "there.json"), 1) is None
    assert untrusted_files.read_json_object(str(tmp_path / "there.json"), 2) is not None


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"rank": 3, "exit_code": 137}, "rank 3 on node n1 was ended by signal 9 (SIGKILL)"),
        (
            {"rank": 3, "exit_code": 255, "signal": 127},
            "rank 3 on node n1 ended with exit code 255",
        ),
        ({"rank": 3, "exit_code": "many"}, None),
        ({"rank": 3, "exit_code": 256}, None),
        ({"rank": {}, "exit_code": 1}, None),
        ({"rank": 3, "exit_code": 1, "message": 5}, None),
    ],
)
def test_failed_rank_is_named_from_its_failure_file(
    tmp_path: Path, said: dict[str, Any], sentence: str | None
) -> None:
    (tmp_path / "failed-0.json").write_text(json.dumps(said))
    spec = spec_in(tmp_path, {"SLURMD_NODENAME": "n1"})
    spec.run_dir = str(tmp_path)
    assert multi_node_run.find_rank_failure(spec) == sentence
