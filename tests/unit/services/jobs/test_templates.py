"""The catalogue: mistakes are named with their line, the other templates serve, edits are seen."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.errors import InvalidInput, NotFound, TemplateError
from aitne.core.models.job import Scalar
from aitne.core.models.template import Template
from aitne.core.models.template_parameter import Parameter, ParameterType
from aitne.services.jobs.template_catalog import TemplateCatalog
from aitne.services.jobs.template_file import load_template

GOOD = """\
name: train
version: 1.0.0
title: Train
type: job
parameters:
  - {name: epochs, type: integer, title: Epochs, default: 3, minimum: 1, maximum: 10}
  - {name: rate, type: number, title: Rate, default: 0.1, minimum: 0}
  - {name: mode, type: choice, title: Mode, default: fast, choices: [fast, slow]}
  - {name: label, type: string, title: Label, pattern: "[a-z]+", max_length: 5, default: a}
  - {name: folder, type: path, title: Folder, default: "~"}
  - {name: verbose, type: boolean, title: Verbose, default: false}
workdir_from: folder
env: {FIXED: "1"}
commands: [python train.py]
"""


class Clock:
    """Moves when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(tmp_path: Path, text: str) -> TemplateError:
    path = tmp_path / "bad.yaml"
    path.write_text(dedent(text), encoding="utf-8")
    with pytest.raises(TemplateError) as caught:
        load_template(path)
    assert caught.value.path == str(path)
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        (
            "version: 1.0.0",
            "version: one",
            2,
            "version: is not in the right form (text that matches ",
        ),
        ("title: Train\n", "", 1, "title is missing"),
        ("type: job", "type: jobs", 4, "type: must be 'job' or 'session'"),
        ("minimum: 1,", "minumum: 1,", 6, "parameters.0.minumum is not a known field"),
        ("minimum: 1,", "minimum: .nan,", 6, "parameters.0.minimum: must be a finite number"),
        ("default: 3", "default: 11", 6, "parameters.0.default: 11 is more than 10"),
        ("default: fast", "default: quick", 8, "parameters.2.default: 'quick' is not one"),
        ('"[a-z]+"', '"[a-z"', 9, "parameters.3.pattern: '[a-z' is not a regular expression"),
        ("name: rate", "name: epochs", 1, "two parameters have the same name"),
        ("workdir_from: folder", "workdir_from: mode", 1, "mode is not a parameter of type path"),
        ("env: {FIXED: ", "env: {AITNE_JOB_ID: ", 13, "belongs to the platform"),
        ("commands: [python train.py]", "commands: []", 1, "a job needs at least one command"),
        ("commands: [python train.py]", "commands: [", 15, "node"),
        ("title: Train", "title: Train\ntitle: Again", 4, "title is named twice"),
        ("title: Train", "title: !!python/object:os.system x", 3, "could not determine"),
        ("title: Train", "title: @x", 3, "cannot start any token"),
    ],
)
def test_each_mistake_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    assert GOOD.count(old) == 1
    error = refused(tmp_path, GOOD.replace(old, new))
    assert (error.line, reason in error.reason) == (line, True), error.message


@pytest.mark.parametrize(
    ("resources", "line", "reason"),
    [
        ("cpu: {default: 4, max: 2}", 16, "resources.cpu.default: 4 is more than max (2)"),
        ("cpu: {default: 1, min: 2}", 16, "resources.cpu.default: 1 is less than min (2)"),
        ("memory: {default: 4X}", 16, "resources.memory.default: '4X' is not an amount of memory"),
        ("memory: {default: 4000}", 16, "resources.memory.default: '4000' is not an amount"),
        ("max_duration: {default: 60}", 16, "resources.max_duration.default: '60' has no unit"),
        ("memory: {default: 4G, max: 2G}", 16, "resources.memory.default"),
        ("gpu: {default: 2, max: 1}", 16, "resources.gpu.default: 2 is more than max (1)"),
        ("gpu: {default: many}", 16, "write a number of GPUs"),
        ("max_duration: {default: 4h, max: 1h}", 16, "resources.max_duration.default"),
        ("cores: {default: 1}", 16, "resources.cores is not a known field"),
    ],
)
def test_resources_are_checked_too(tmp_path: Path, resources: str, line: int, reason: str) -> None:
    error = refused(tmp_path, f"{GOOD}resources:\n  {resources}\n")
    assert (error.line, reason in error.reason) == (line, True), error.message


def test_unknown_fields_of_apps_are_refused(tmp_path: Path) -> None:
    error = refused(
        tmp_path,
        """\
        name: lab
        version: 1.0.0
        title: Lab
        type: session
        apps:
          - name: lab
            title: Lab
            readiness:
              pth: /
        """,
    )
    assert (error.line, error.reason) == (
        9,
        "apps.0.readiness.pth is not a known field",
    )


def test_the_app_that_makes_a_session_is_not_optional(tmp_path: Path) -> None:
    text = "name: lab\nversion: 1.0.0\ntitle: Lab\ntype: session\n"
    text += "apps: [{name: lab, title: Lab, optional: true}]\n"
    assert "cannot be optional" in refused(tmp_path, text).reason


@pytest.mark.parametrize("text", ["", "- a\n", "just text", "3"], ids=repr)
def test_template_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text).line == 1


def test_unreadable_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "huge.yaml").write_bytes(b"#" * ((1 << 20) + 1))
    problems = TemplateCatalog([tmp_path]).problems()
    reasons = [problem.reason for problem in problems]
    assert reasons[0] == "it cannot be read: No such file or directory"
    assert reasons[1].startswith("it is larger than")
    assert reasons[2].startswith("it is not UTF-8")


@given(
    st.one_of(
        st.text(max_size=200), st.text(alphabet="abc:-[]{}#&*!|> \n'\"0123456789", max_size=60)
    )
)
def test_no_text_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TemplateError):
        load_template(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.yaml").write_text(GOOD)
    return tmp_path


def test_invalid_template_does_not_hide_other_templates(folder: Path) -> None:
    (folder / "bad.yaml").write_text("name: [")
    catalog = TemplateCatalog([folder])
    assert [template.name for template in catalog.templates()] == ["train"]
    assert [problem.path for problem in catalog.problems()] == [str(folder / "bad.yaml")]


def test_a_folder_that_is_not_there_is_told(folder: Path) -> None:
    site = folder / "site"
    clock = Clock()
    catalog = TemplateCatalog([folder, site], monotonic=clock)
    assert [template.name for template in catalog.templates()] == ["train"]
    (problem,) = catalog.problems()
    assert (problem.path, problem.reason) == (
        str(site),
        "it cannot be read: No such file or directory",
    )
    site.mkdir()
    clock.now += 2
    assert not catalog.problems()


def test_a_second_template_of_the_same_name_is_refused(folder: Path) -> None:
    (folder / "zweite.yaml").write_text(GOOD)
    (problem,) = TemplateCatalog([folder]).problems()
    assert problem.reason == "name: train is already the name of train.yaml"


def test_a_later_folder_replaces_a_template(folder: Path) -> None:
    site = folder / "site"
    site.mkdir()
    (site / "ours.yaml").write_text(GOOD.replace("title: Train", "title: Ours"))
    catalog = TemplateCatalog([folder, site])
    assert catalog.get("train").title == "Ours"
    assert not catalog.problems()


def test_edits_are_seen_after_a_second_without_a_restart(folder: Path) -> None:
    clock = Clock()
    catalog = TemplateCatalog([folder, folder / "not there"], monotonic=clock)
    assert catalog.get("train").title == "Train"
    (folder / "train.yaml").write_text(GOOD.replace("title: Train", "title: Trained"))
    assert catalog.get("train").title == "Train"
    clock.now = 1.0
    assert catalog.get("train").title == "Trained"
    (folder / "train.yaml").unlink()
    clock.now = 2.0
    with pytest.raises(NotFound, match="train"):
        catalog.get("train")


def test_expand_fills_in_the_defaults(folder: Path) -> None:
    catalog = TemplateCatalog([folder])
    expanded = catalog.expand(catalog.get("train"), {"epochs": 5, "verbose": True})
    assert expanded.env == {
        "FIXED": "1",
        "AITNE_PARAM_EPOCHS": "5",
        "AITNE_PARAM_RATE": "0.1",
        "AITNE_PARAM_MODE": "fast",
        "AITNE_PARAM_LABEL": "a",
        "AITNE_PARAM_FOLDER": "~",
        "AITNE_PARAM_VERBOSE": "true",
    }
    assert expanded.workdir == "~"


@pytest.mark.parametrize(
    ("name", "value", "message", "allowed"),
    [
        ("epochs", 11, "11 is more than 10", "a whole number from 1 to 10"),
        ("epochs", 0, "0 is less than 1", "a whole number from 1 to 10"),
        ("epochs", "3", "'3' is not a whole number", "a whole number from 1 to 10"),
        ("epochs", True, "True is not a whole number", "a whole number from 1 to 10"),
        ("epochs", 1.5, "1.5 is not a whole number", "a whole number from 1 to 10"),
        ("rate", float("nan"), "infinite numbers and NaN are not possible", "a number, at least 0"),
        ("rate", float("inf"), "infinite numbers and NaN are not possible", "a number, at least 0"),
        ("mode", "quick", "'quick' is not one of the choices", "fast, slow"),
        ("label", "ABC", "'ABC' does not have the right form", "matches [a-z]+"),
        ("label", "abcdef", "it has 6 characters; the limit is 5", "at most 5 characters"),
        ("label", 3, "3 is not text; write it in quotes", "text"),
        ("folder", "", "a path is needed", "a path"),
        ("folder", "a\0b", "NUL", "a path"),
        ("folder", "work", "'work' is not a path that starts at /", "an absolute path"),
        ("verbose", "yes", "'yes' is not true or false", "true or false"),
        ("epoch", 3, "no such parameter; did you mean 'epochs'?", "epochs, rate, mode"),
    ],
)
def test_each_wrong_value_is_named(
    folder: Path, name: str, value: Scalar, message: str, allowed: str
) -> None:
    catalog = TemplateCatalog([folder])
    with pytest.raises(InvalidInput) as caught:
        catalog.expand(catalog.get("train"), {name: value})
    (problem,) = caught.value.problems
    assert problem.field == f"parameters.{name}"
    assert message in problem.message
    assert problem.allowed is not None
    assert allowed in problem.allowed
    assert problem.value == str(value)


def test_a_parameter_without_a_default_is_needed() -> None:
    template = Template(
        name="t",
        version="1.0.0",
        title="T",
        type="job",
        commands=["true"],
        parameters=[Parameter(name="x", type=ParameterType.STRING, title="X")],
    )
    with pytest.raises(InvalidInput, match=r"parameters\.x: a value is needed"):
        TemplateCatalog([]).expand(template, {})


@given(
    st.sampled_from(ParameterType),
    st.one_of(st.text(), st.integers(), st.floats(), st.booleans()),
)
def test_a_value_is_taken_as_it_is_or_refused(kind: ParameterType, value: Scalar) -> None:
    choices = ["a", "b"] if kind is ParameterType.CHOICE else []
    parameter = Parameter(name="x", type=kind, title="X", choices=choices)
    try:
        taken = parameter.convert_value(value)
    except ValueError:
        return
    assert taken == value
