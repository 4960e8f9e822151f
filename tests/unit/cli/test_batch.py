"""``aitne batch``: a notebook becomes a job file, and is checked before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fake_api import FakeApi, job
from tests.unit.cli.conftest import Aitne
from tests.unit.cli.test_commands import plan


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "train.ipynb"
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ["lr = 1\n"]}
    path.write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    return path


def test_batch_submits_the_notebook_with_typed_parameters(
    aitne: Aitne, api: FakeApi, notebook: Path
) -> None:
    values = {
        "path": str(notebook),
        "parameters": {"lr": 0.1, "name": "x", "sizes": [1, {"$float": "nan"}]},
    }
    api.on("POST", "/jobs:plan", plan(spec={"commands": [], "notebook": values}))
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    values["kernel"] = "ir"
    parameters = ("-k", "ir", "-p", "lr=0.1", "-p", "name=x", "-p", "sizes=[1, .nan]")
    options = (*parameters, "--nodes", "2", "--cpu", "4", "--venv", str(notebook.parent))
    done = aitne("batch", str(notebook), *options, "--yes", "--json")
    assert done.status == 0, done.err
    (sent,) = api.sent("POST", "/jobs")
    assert sent.json == {
        "notebook": values,
        "resources": {"cpu": 4, "nodes": 2},
        "environment": {"venv": str(notebook.parent)},
    }
    assert "train.ipynb with lr=0.1, name='x', sizes=[1, nan], kernel ir" in done.err
    assert "Warning: The notebook has no parameter name; it has lr." in done.err


def test_parameter_in_the_form_of_papermill_is_explained(
    aitne: Aitne, api: FakeApi, notebook: Path
) -> None:
    done = aitne("batch", str(notebook), "-p", "lr", "0.1", "--yes")
    assert done.status == 2
    assert "it has no value, which follows an equals sign, not a blank" in done.err
    assert "lr=VALUE, such as lr=0.1" in done.err
    done = aitne("batch", str(notebook), "other.ipynb", "--yes")
    assert (done.status, api.requests) == (2, [])
    assert "There is one notebook, and other.ipynb is left over." in done.err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "train.ipynb is not a notebook: it is JSON without fields"),
        ("{", "train.ipynb is not a notebook: it is not JSON"),
        (None, "train.ipynb cannot be read: No such file or directory"),
    ],
)
def test_batch_refuses_what_is_no_notebook(
    aitne: Aitne, api: FakeApi, notebook: Path, content: str | None, reason: str
) -> None:
    notebook.unlink()
    if content is not None:
        notebook.write_text(content)
    done = aitne("batch", str(notebook), "--yes")
    assert (done.status, done.out) == (2, "")
    assert reason in done.err
    assert not api.requests


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-p", "lr"), "it has no value"),
        (("-p", "=1"), "it has no value"),
        (("-p", "lr=1", "-p", "lr=2"), "lr is given twice"),
        (("--sync", "/usr/bin"), "the notebook is not in this folder"),
    ],
)
def test_batch_refuses_wrong_options(
    aitne: Aitne, api: FakeApi, notebook: Path, options: tuple[str, ...], reason: str
) -> None:
    done = aitne("batch", str(notebook), *options, "--yes")
    assert done.status == 2
    assert reason in done.err
    assert not api.requests
