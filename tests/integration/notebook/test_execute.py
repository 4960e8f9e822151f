"""Notebooks on real kernels, as the agent of a job runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters import node_software_folder
from aitne.supervisor import software_environments
from tests.support import realtime
from tests.support.requirements import lacking
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

BACKEND = Path(software_environments.__file__).parents[2]
RUN = "import sys; sys.path.append(sys.argv.pop(1)); from aitne.notebook.notebook_run import main; main()"
PYTHON3 = {"name": "python3", "display_name": "Python 3"}
CONDA = {"name": "conda-env-own-py", "display_name": "own", "language": "python"}
JULIA = {"name": "julia-9", "display_name": "Julia", "language": "julia"}
EVIL = """
from IPython.display import HTML, Javascript, Markdown, display
display(HTML('<script>bad(1)</script><b onclick="bad(2)">bold</b><iframe src="//bad.test"></iframe>'))
display(HTML('<table><thead><tr><th>column</th></tr></thead></table><a href="data:text/html,bad">l</a>'))
display(Javascript('bad(3)'))
display(Markdown('[l](javascript:bad(4)) <img src=x onerror="bad(5)">'))
display({'image/svg+xml': '<svg xmlns="http://www.w3.org/2000/svg"><script>bad(6)</script></svg>'}, raw=True)
""".strip()


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of the environment of sessions."""
    path = software_environments.session_env_dir() / "bin" / "python"
    if not path.is_file():
        lacking("hub", "the environment of sessions was not made; `aitne up` makes it")
    node_software_folder.write_own_software()
    return path


def prepare(
    folder: Path, cells: Sequence[str], *, saved: dict[str, str] | None = None, **request: Any
) -> Path:
    """Write a notebook of these cells and what the platform writes for it; return the job's
    folder. Of the cells, those that begin with ``lr =`` are parameters."""
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": saved or PYTHON3},
        "cells": [
            {
                "id": f"cell{number}",
                "cell_type": "markdown" if code.startswith("#") else "code",
                "metadata": {"tags": ["parameters"] if code.startswith("lr =") else []},
                "source": code,
                **({} if code.startswith("#") else {"outputs": [], "execution_count": None}),
            }
            for number, code in enumerate(cells)
        ],
    }
    (folder / "study").mkdir()
    content = json.dumps(notebook, ensure_ascii=False)
    # Editors on Windows begin a file with a byte order mark.
    (folder / "study" / "train.ipynb").write_text(content, encoding="utf-8-sig")
    return write_request(folder, path=str(folder / "study" / "train.ipynb"), **request)


def write_request(folder: Path, **request: Any) -> Path:
    """Write what the platform writes for the execution, and return the job's folder."""
    job = folder / "job"
    job.mkdir()
    package = str(node_software_folder.own_software().notebook)
    defaults = {"parameters": {}, "kernel": None, "in_its_folder": True, "own_python": False}
    defaults["package"] = package
    (job / "notebook.json").write_text(json.dumps(defaults | request))
    return job


def start(python: Path, job: Path) -> subprocess.Popen[str]:
    """Start the program that executes the job's notebook."""
    with (job / "log").open("w") as log:
        return subprocess.Popen(
            [python, "-I", "-c", RUN, str(BACKEND), str(job)],
            cwd=job,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )


def run(python: Path, job: Path) -> tuple[int, str]:
    """Run the notebook to its end; return the exit code and the log."""
    code = start(python, job).wait(100)
    return code, (job / "log").read_text()


def executed(job: Path) -> dict[str, Any]:
    """Return the executed copy of the notebook."""
    content: dict[str, Any] = json.loads((job / "executed.ipynb").read_text())
    return content


def text_of(cell: dict[str, Any]) -> str:
    """Return the text output of a cell in the executed copy."""
    return "".join("".join(output.get("text", ())) for output in cell["outputs"])


def test_notebook_runs_with_its_parameters_and_a_harmless_bounded_page(
    python: Path, tmp_path: Path
) -> None:
    cells = [
        "# Title <script>bad(0)</script>",
        "lr = 1.0",
        "import os; print(lr, os.path.basename(os.getcwd()))\n%ranks output",
        EVIL,
        "for _ in range(200): print('x' * 10**6)",
    ]
    job = prepare(tmp_path, cells, parameters={"lr": 0.5, "rate": 2})
    code, log = run(python, job)
    assert code == 0, log
    assert "Warning: The notebook has no parameter rate; it has lr." in log
    assert "[cell 3 of 5] import os" in log
    assert "0.5 study\nNo cell has printed anything.\n" in log  # as in a session's kernel
    assert len(log) < 300_000
    book = executed(job)
    assert book["metadata"]["aitne"]["state"] == "completed"
    assert book["cells"][2]["metadata"]["tags"] == ["injected-parameters"]
    assert text_of(book["cells"][3]).startswith("0.5 study\n")
    assert "MB of output left out]" in text_of(book["cells"][-1])
    assert (job / "executed.ipynb").stat().st_size < 1_000_000
    page = (job / "executed.html").read_text()
    assert "Completed: 5 cells." in page
    assert "<script" not in page
    # The code of a cell is shown as text; of its outputs nothing else may come through.
    parts = page.split('class="output_wrapper"')[1:]
    shown = "".join(part.split('<div class="input">')[0] for part in parts)
    assert "<th>column</th>" in shown
    for text in ("onclick", "onerror", "javascript:", "<iframe", "data:text", "bad.test"):
        assert text not in shown, text
    assert "data:image/svg+xml;base64," in shown


def test_failing_cell_is_named_and_leaves_a_partial_copy(python: Path, tmp_path: Path) -> None:
    job = prepare(tmp_path, ["print('before')", "1 / 0", "print('after')"])
    code, log = run(python, job)
    assert code == 1
    assert log.endswith("aitne: cell 2 of 3 failed: ZeroDivisionError: division by zero.\n")
    sentence = "cell 2 of 3 failed: ZeroDivisionError: division by zero"
    assert json.loads((job / "failure.json").read_text()) == {"message": sentence}
    first, second, third = executed(job)["cells"]
    assert text_of(first) == "before\n"
    assert second["outputs"][0]["ename"] == "ZeroDivisionError"
    assert third["outputs"] == []
    page = (job / "executed.html").read_text()
    assert "Cell 2 of 3 failed: ZeroDivisionError: division by zero." in page


def test_killed_kernel_ends_the_job_with_its_exit_code(python: Path, tmp_path: Path) -> None:
    job = prepare(tmp_path, ["print('before')", "import os; os.kill(os.getpid(), 9)"])
    code, log = run(python, job)
    assert code == 128 + signal.SIGKILL
    assert log.endswith("aitne: the kernel was killed by SIGKILL in cell 2 of 2.\n")
    assert text_of(executed(job)["cells"][0]) == "before\n"


def test_job_that_is_asked_to_end_lets_the_cell_clean_up_and_names_it(
    python: Path, tmp_path: Path
) -> None:
    cell = "import time\nprint('begun')\ntry:\n    time.sleep(100)\nfinally:\n    print('cleaned')"
    job = prepare(tmp_path, ["print('before')", cell])
    process = start(python, job)
    eventually("the cell runs", lambda: "begun" in (job / "log").read_text(), 100)
    # What is there already can be read while the job runs.
    eventually(
        "the copy is written",
        lambda: (
            (job / "executed.ipynb").exists() and text_of(executed(job)["cells"][0]) == "before\n"
        ),
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert "in cell 2 of 2.\n" in (job / "log").read_text()
    assert text_of(executed(job)["cells"][1]) == "begun\ncleaned\n"
    assert executed(job)["metadata"]["aitne"]["state"] == "stopped"


@pytest.mark.parametrize(
    ("saved", "request_"),
    [
        (CONDA, {}),
        (JULIA, {"own_python": True}),
        (PYTHON3, {"own_python": True, "kernel": "conda-env-own-py"}),
    ],
)
def test_missing_kernel_is_answered_with_the_installed_ones(
    python: Path, tmp_path: Path, saved: dict[str, str], request_: dict[str, Any]
) -> None:
    code, log = run(python, prepare(tmp_path, ["1"], saved=saved, **request_))
    assert code == 1
    name = request_.get("kernel", saved["name"])
    assert f"the notebook's kernel {name!r} is not installed here; installed: " in log
    assert "python3" in log
    assert "--kernel" in log


def test_environment_or_kernel_of_the_job_decides_instead_of_the_notebook(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "python").write_text(f'#!/bin/sh\nWHOSE=own exec {python} "$@"\n')
    (own / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    monkeypatch.setenv("WHOSE", "of sessions")
    for chosen, whose in (({"own_python": True}, "own"), ({"kernel": "python3"}, "of sessions")):
        folder = tmp_path / next(iter(chosen))
        folder.mkdir()
        job = prepare(folder, ["import os; print(os.environ['WHOSE'])"], saved=CONDA, **chosen)
        code, log = run(python, job)
        assert code == 0, log
        assert text_of(executed(job)["cells"][0]) == f"{whose}\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "is not a notebook: it is JSON without fields"),
        (
            '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1]}',
            "is not a valid notebook",
        ),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_file_that_is_no_notebook_ends_the_job_with_the_reason(
    python: Path, tmp_path: Path, content: str | None, reason: str
) -> None:
    path = tmp_path / "a.ipynb"
    if content is not None:
        path.write_text(content)
    code, log = run(python, write_request(tmp_path, path=str(path)))
    assert code == 1
    last = log.splitlines()[-1]
    assert last.startswith("aitne: ")
    assert reason in last


def test_python_without_the_packages_is_named(tmp_path: Path) -> None:
    job = prepare(tmp_path, ["1"])
    code, log = run(Path(sys.executable), job)
    assert code == 1
    assert " has no nbformat: a notebook runs as a job where nbclient, nbconvert" in log
