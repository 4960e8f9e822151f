"""Notebook that a job runs."""

from __future__ import annotations

import json
import keyword
import re
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from aitne.core.float_encoding import decode_floats, encode_floats
from aitne.core.models.base import Strict, check_passable

MAX_PARAMETERS_BYTES = 64 << 10
MAX_DEPTH = 20


def _check_path(value: str) -> str:
    if not value.endswith(".ipynb") or value.rpartition("/")[2] == ".ipynb":
        raise ValueError("write the path of a notebook, which ends in .ipynb")
    if re.search(r"[\x00-\x1f\x7f]", value) or ".." in value.split("/"):
        raise ValueError("write a path without .. and without control characters")
    return check_passable(value)


def _check_parameters(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name, value in values.items():
        if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{name!r} is not the name of a variable in Python")
        if _measure_depth(decode_floats(value)) > MAX_DEPTH:
            raise ValueError(f"{name} is nested more than {MAX_DEPTH} times")
    values = encode_floats(values)
    size = len(json.dumps(values, allow_nan=False))
    if size > MAX_PARAMETERS_BYTES:
        raise ValueError(
            f"all values together have {size} bytes; allowed: {MAX_PARAMETERS_BYTES}; put large "
            "values into a file"
        )
    return values


def _measure_depth(value: JsonValue) -> int:
    parts = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if parts is None else 1 + max(map(_measure_depth, parts), default=0)


class NotebookOptions(Strict):
    """Content of ``notebook`` in a job file: a notebook that the job runs."""

    path: Annotated[str, Field(min_length=1, max_length=4_000), AfterValidator(_check_path)] = (
        Field(
            description="Path of the notebook: in full, below ~, or from the workdir, tree or "
            "repository. Its cells run in the workdir, without one in the folder of the notebook.",
            examples=["~/study/train.ipynb"],
        )
    )
    parameters: Annotated[dict[str, JsonValue], AfterValidator(_check_parameters)] = Field(
        default_factory=dict,
        max_length=200,
        description="Values that are set after the notebook's cell with the tag parameters, by the "
        'names of variables. JSON has no infinite numbers and no NaN: they are {"$float": "inf"}, '
        '{"$float": "-inf"} and {"$float": "nan"}.',
        examples=[{"lr": 0.1}],
    )
    kernel: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")] | None = Field(
        None,
        description="Name of the kernel, as `jupyter kernelspec list` shows it. Omitted: the one that "
        "the notebook names; with environment.venv or environment.conda a notebook in Python runs in "
        "that environment.",
        examples=["python3"],
    )
