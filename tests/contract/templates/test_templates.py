"""Every template that we ship: it loads, expands, and what it runs does what the form says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aitne.core.models.job import JobType, Scalar
from aitne.core.models.template import Template
from aitne.core.models.template_parameter import ParameterType
from aitne.services.jobs.template_catalog import TemplateCatalog, builtin_folder

ICONS = {"notebook", "terminal", "brain", "chart"}
CATALOG = TemplateCatalog([builtin_folder()])
TEMPLATES = {template.name: template for template in CATALOG.templates()}
HOSTILE = "$(touch pwned) `id`\n#SBATCH --uid=0\n'\"\\ 🦊"


def fill(template: Template, **given: Scalar) -> dict[str, Scalar]:
    """Return values for all parameters without a default, and the given ones."""
    needed = {
        p.name: "~/text" if p.type is ParameterType.PATH else "text"
        for p in template.parameters
        if p.default is None
    }
    return {**needed, **given}


def run(template: Template, folder: Path, **given: Scalar) -> subprocess.CompletedProcess[str]:
    expanded = CATALOG.expand(template, fill(template, folder=str(folder), **given))
    python = Path(sys.executable).parent
    env = {"PATH": f"{python}:{os.environ['PATH']}", "HOME": str(folder), **expanded.env}
    (command,) = template.commands
    return subprocess.run(
        ["bash", "-c", command],
        env=env,
        cwd=expanded.workdir,
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_are_found() -> None:
    assert {"jupyterlab", "tensorboard", "batch", "python-train"} <= set(TEMPLATES)
    assert not CATALOG.problems()


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_matches_its_file_name_and_fits_small_machine(name: str) -> None:
    template = TEMPLATES[name]
    assert (builtin_folder() / f"{name}.yaml").is_file()
    assert {template.icon, *(app.icon for app in template.apps)} <= ICONS
    assert template.description.endswith(".")
    assert template.resources.cpu.default <= 2
    assert template.resources.memory.default <= 4 << 30
    assert template.resources.gpu.default.count == 0


@pytest.mark.parametrize("name", TEMPLATES)
def test_values_reach_the_environment_unchanged(name: str) -> None:
    template = TEMPLATES[name]
    texts = [
        p.name
        for p in template.parameters
        if p.type in (ParameterType.STRING, ParameterType.TEXT) and p.pattern is None
    ]
    expanded = CATALOG.expand(template, fill(template, **dict.fromkeys(texts, HOSTILE)))
    assert all(expanded.env[f"AITNE_PARAM_{text.upper()}"] == HOSTILE for text in texts)
    assert set(expanded.parameters) == {p.name for p in template.parameters}


def test_a_session_starts_in_the_folder_that_was_chosen() -> None:
    template = TEMPLATES["jupyterlab"]
    assert template.type is JobType.SESSION
    assert CATALOG.expand(template, {}).workdir == "~"
    assert CATALOG.expand(template, {"folder": "~/work"}).workdir == "~/work"


def test_batch_runs_the_text_and_ends_as_it_ends(tmp_path: Path) -> None:
    ran = run(TEMPLATES["batch"], tmp_path, command="echo one\necho 'two  words'\nexit 3")
    assert (ran.returncode, ran.stdout) == (3, "one\ntwo  words\n")


SCRIPT = "import json, os, sys\nprint(json.dumps([sys.argv, os.getcwd()]))\n"


def test_python_train_gives_each_argument_as_it_was_quoted(tmp_path: Path) -> None:
    name = "train $(touch pwned).py"
    (tmp_path / name).write_text(SCRIPT)
    ran = run(
        TEMPLATES["python-train"],
        tmp_path,
        script=name,
        arguments="--data 'my data' --x=$(touch pwned) `touch pwned` *",
        epochs=3,
        learning_rate=0.5,
        seed=7,
    )
    argv, cwd = json.loads(ran.stdout)
    assert argv == [
        str(tmp_path / name),
        *["--data", "my data", "--x=$(touch", "pwned)", "`touch", "pwned`", "*"],
        *["--epochs", "3", "--learning-rate", "0.5", "--seed", "7"],
    ]
    assert cwd == str(tmp_path)
    assert not (tmp_path / "pwned").exists()


def test_python_train_finds_a_script_in_home_and_can_leave_the_options_out(tmp_path: Path) -> None:
    (tmp_path / "-c").write_text(SCRIPT)
    ran = run(TEMPLATES["python-train"], tmp_path, script="~/-c", options=False)
    assert json.loads(ran.stdout)[0] == [str(tmp_path / "-c")]


def test_python_train_says_that_a_quote_is_not_closed(tmp_path: Path) -> None:
    ran = run(TEMPLATES["python-train"], tmp_path, script="x.py", arguments="'open")
    assert ran.returncode == 1
    assert ran.stderr == "The arguments cannot be split into words: No closing quotation.\n"
