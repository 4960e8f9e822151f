from __future__ import annotations

import math
from pathlib import Path

import pytest

from aitne.cli import job_file_reader
from aitne.core.errors import FieldProblem, InvalidInput


def write(folder: Path, text: str | bytes) -> str:
    path = folder / "job.aitne.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_words_mean_what_they_say(tmp_path: Path) -> None:
    text = """
name: no
retry: {max: 3, on: [node_failed]}
max_duration: 1:30:00
resources: {cpu: 010, memory: 16G, gpu: a100:4}
parameters: {date: 2026-11-21, share: 0.5, fast: true, none: ~, big: 1e3, most: .inf, least: -.INF}
array: 0-9%2
"""
    assert job_file_reader.read_job_file(write(tmp_path, text)).content == {
        "name": "no",
        "retry": {"max": 3, "on": ["node_failed"]},
        "max_duration": "1:30:00",
        "resources": {"cpu": 10, "memory": "16G", "gpu": "a100:4"},
        "parameters": {
            "date": "2026-11-21",
            "share": 0.5,
            "fast": True,
            "none": None,
            "big": 1e3,
            "most": math.inf,
            "least": -math.inf,
        },
        "array": "0-9%2",
    }


def test_values_of_env_stay_as_they_are_written(tmp_path: Path) -> None:
    text = "env: {VERSION: 1.10, COUNT: 1, FAST: True, NONE: ~, NAME: '1', MOST: .inf}"
    assert job_file_reader.read_job_file(write(tmp_path, text)).content["env"] == {
        "VERSION": "1.10",
        "COUNT": "1",
        "FAST": "True",
        "NONE": None,
        "NAME": "1",
        "MOST": ".inf",
    }


def test_text_comes_through_unchanged(tmp_path: Path) -> None:
    text = 'name: "it\'s `$(rm -rf /)` 🚀\\n#SBATCH"\ncommands:\n  - |\n    echo 1\n    echo 2\n'
    content = job_file_reader.read_job_file(write(tmp_path, text)).content
    assert content["name"] == "it's `$(rm -rf /)` 🚀\n#SBATCH"
    assert content["commands"] == ["echo 1\necho 2\n"]


def test_a_relative_workdir_counts_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = write(folder, "workdir: ../data")
    monkeypatch.chdir(tmp_path)
    assert job_file_reader.read_job_file("project/job.aitne.yml").content["workdir"] == str(
        tmp_path / "data"
    )
    assert job_file_reader.read_job_file(path).content["workdir"] == str(tmp_path / "data")


def test_a_relative_venv_counts_from_the_file_too(tmp_path: Path) -> None:
    path = write(tmp_path, "environment: {venv: ../.venv, modules: [cuda]}")
    found = job_file_reader.read_job_file(path).content["environment"]
    assert found == {"venv": str(tmp_path.parent / ".venv"), "modules": ["cuda"]}
    path = write(tmp_path, "environment: {venv: ~/envs/vision}")
    assert job_file_reader.read_job_file(path).content["environment"] == {"venv": "~/envs/vision"}


@pytest.mark.parametrize("workdir", ["/abs/olute", "~/home", "~ada/x"])
def test_other_workdirs_stay(tmp_path: Path, workdir: str) -> None:
    assert (
        job_file_reader.read_job_file(write(tmp_path, f"workdir: {workdir}")).content["workdir"]
        == workdir
    )


def test_no_workdir_stays_none(tmp_path: Path) -> None:
    assert "workdir" not in job_file_reader.read_job_file(write(tmp_path, "name: a")).content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", r"job\.aitne\.yml:1: not YAML"),
        ("name: a\nenv:\n  A: 1\n  A: 2\n", r":4: env\.A is given twice; first in line 3"),
        ("- a\n- b\n", "no fields"),
        ("", "no fields"),
        ("a: 1\n---\nb: 2\n", "has 2 job files"),
        ("a: !!python/object/apply:os.system ['true']\n", ":1: not YAML"),
        ("name: \t\x07\n", "not YAML"),
        (b"\xff\xfe\xfa", "not YAML"),
        ("{[1]: 2}", ":1: a field's name must be a word"),
        ("a: " + "[" * 1_500, "nested too deeply"),
        ("a: &a [*a]", "nested too deeply"),
        (b"name: \xff", r"not YAML: invalid start byte \(at character 7\)\.$"),
        ("a: !!binary aGk=", ":1: not YAML"),
        ("a: !!set {b}", ":1: not YAML"),
        ("\na: !!timestamp 2026-01-01", ":2: not YAML"),
        ("a: !!bool perhaps", "'perhaps' is not what its tag says"),
        ("\na: !!int x", ":2: not YAML: this is not a valid integer"),
        ("\na: " + "9" * 5_000, ":2: not YAML: this is not a valid integer"),
        (
            "a0: &a0 [x, x]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
            "more than 100000 fields",
        ),
    ],
)
def test_job_file_error_names_its_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        job_file_reader.read_job_file(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gone\.yml cannot be read: No such file"):
        job_file_reader.read_job_file(str(tmp_path / "gone.yml"))


def test_problems_are_located(tmp_path: Path) -> None:
    source = job_file_reader.read_job_file(
        write(tmp_path, "name: a\nresources:\n  cpu: 99\ncommands:\n  - a\n  - b\n")
    )
    assert source.find_line("resources.cpu") == 3
    assert source.find_line("resources.gpu") == 2
    assert source.find_line("commands.1") == 6
    assert source.find_line("project") is None
    located = source.with_lines(InvalidInput("no", [FieldProblem("resources.cpu", "too many")]))
    assert located.problems[0].field == "resources.cpu"
    assert located.source is source
