"""Parameters of notebooks: what is known before the run, and the injected cell."""

from __future__ import annotations

import json
import keyword
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from aitne.core.models.notebook_job import NotebookOptions
from aitne.notebook.notebook_parameters import (
    NotANotebook,
    find_parameter_cell,
    known_parameters,
    list_warnings,
    parse_notebook,
    render_parameters,
)

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


def notebook(*cells: tuple[str, str]) -> dict[str, Any]:
    """Return a notebook of code cells, each with a tag."""
    return {
        "nbformat": 4,
        "cells": [
            {"cell_type": "code", "metadata": {"tags": [tag]}, "source": code}
            for tag, code in cells
        ],
    }


@settings(max_examples=40)
@given(parameters=st.dictionaries(NAMES, VALUES, max_size=5))
def test_injected_cell_sets_exactly_the_values_of_the_job_file(parameters: dict[str, Any]) -> None:
    given_ = NotebookOptions(path="a.ipynb", parameters=parameters).parameters
    stored = json.loads(json.dumps(given_, allow_nan=False))
    found: dict[str, Any] = {}
    exec(render_parameters(stored), {}, found)
    assert found == parameters
    assert [type(value) for value in found.values()] == [type(v) for v in parameters.values()]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([1, float("nan")], "a = [1, float('nan')]"),
        ({"x": [float("-inf")]}, "a = {'x': [float('-inf')]}"),
        ({"$float": "inf"}, "a = float('inf')"),
        ({"$float": "0.1"}, "a = {'$float': '0.1'}"),
        (".inf", "a = '.inf'"),
    ],
)
def test_infinite_numbers_and_nan_are_encoded_and_injected(value: Any, code: str) -> None:
    stored = NotebookOptions(path="a.ipynb", parameters={"a": value}).model_dump_json()
    assert render_parameters(json.loads(stored)["parameters"]) == f"# Parameters\n{code}"


def test_cell_is_injected_after_the_defaults_at_the_top_or_over_an_earlier_one() -> None:
    assert find_parameter_cell(notebook(("", "a"), ("parameters", "lr = 1"))["cells"]) == (2, False)
    assert find_parameter_cell(notebook(("", "a"))["cells"]) == (0, False)
    cells = notebook(("parameters", "lr = 1"), ("injected-parameters", "lr = 2"))["cells"]
    assert find_parameter_cell(cells) == (1, True)


def test_unknown_parameter_is_answered_with_the_known_ones() -> None:
    code = "%matplotlib inline\nlr: float = 0.1\na, b = 1, 2  # both\nepochs = depth = 3\nx: int\n"
    book = notebook(("parameters", code))
    assert known_parameters(book) == ["lr", "a", "b", "epochs", "depth"]
    assert list_warnings(book, ["lr", "rate"]) == [
        "The notebook has no parameter rate; it has lr, a, b, epochs, depth."
    ]
    assert list_warnings(book, []) == []
    (sentence,) = list_warnings(notebook(("", "x = 1")), ["lr"])
    assert "no cell with the tag parameters" in sentence
    assert list_warnings(notebook(("parameters", "lr <- 0.1 ->")), ["lr"]) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "JSON without fields"),
        (b"{}", "no field nbformat"),
        (b'{"nbformat": "4"}', "no field nbformat"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"cells": ', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_file_that_is_no_notebook_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(NotANotebook, match=reason):
        parse_notebook(data)


@settings(max_examples=40)
@given(content=VALUES)
def test_no_content_of_a_notebook_breaks_the_check_before_the_submission(content: Any) -> None:
    for cells in (
        content,
        [content],
        [{"cell_type": "code", "metadata": content, "source": content}],
    ):
        list_warnings({"nbformat": 4, "cells": cells}, ["lr"])


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "a.py"},
        {"path": ".ipynb"},
        {"path": "../a.ipynb"},
        {"path": "a\n.ipynb"},
        {"path": "a.ipynb", "parameters": {"class": 1}},
        {"path": "a.ipynb", "parameters": {"a b": 1}},
        {"path": "a.ipynb", "parameters": {"ä": 1}},
        {"path": "a.ipynb", "parameters": {"a": "x" * 70_000}},
        {"path": "a.ipynb", "kernel": "../python3"},
        {"path": "a.ipynb", "language": "python"},
    ],
)
def test_invalid_notebook_in_a_job_file_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NotebookOptions.model_validate(fields)


def test_deeply_nested_parameter_is_refused() -> None:
    value: Any = 1
    for _ in range(21):
        value = [value]
    with pytest.raises(ValidationError, match="nested more than 20 times"):
        NotebookOptions(path="a.ipynb", parameters={"a": value})
