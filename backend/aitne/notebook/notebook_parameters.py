"""Parameters of notebooks, by the convention of papermill: the cell with the tag ``parameters``
contains their defaults, and a cell with the tag ``injected-parameters`` after it the values of a
run.

It imports little, because the command line uses it too.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aitne.core.float_encoding import decode_floats

DEFAULTS, INJECTED = "parameters", "injected-parameters"
"""Tags of the cells."""
MAX_BYTES = 100 << 20
"""Maximum size of a notebook that is executed, in bytes."""


class NotANotebook(ValueError):
    """Error: a file is not a notebook. The message states the reason and continues a sentence that
    begins with the file's name, such as ``is not a notebook: ...``."""


def parse_notebook(data: bytes) -> dict[str, Any]:
    """Return the content of a notebook.

    Raises ``NotANotebook`` if ``data`` is too large, not JSON, or JSON of something else.
    """
    if len(data) > MAX_BYTES:
        raise NotANotebook(
            f"is larger than {MAX_BYTES >> 20} MiB: clear its outputs in JupyterLab (Edit > Clear "
            "Outputs of All Cells), and save it"
        )
    try:
        content = json.loads(data)
    except RecursionError:
        raise NotANotebook("is not a notebook: it is nested too deeply") from None
    except ValueError as error:
        raise NotANotebook(f"is not a notebook: it is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise NotANotebook("is not a notebook: it is JSON without fields")
    if not isinstance(content.get("nbformat"), int):
        raise NotANotebook("is not a notebook: it has no field nbformat")
    return content


def code_cells(notebook: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the code cells of a notebook. Invalid cells are omitted."""
    cells = notebook.get("cells")
    return [
        cell
        for cell in (cells if isinstance(cells, list) else ())
        if isinstance(cell, Mapping) and cell.get("cell_type") == "code"
    ]


def get_cell_tags(cell: Mapping[str, Any]) -> Sequence[str]:
    """Return the tags of a cell; empty if it has none or its metadata are invalid."""
    metadata = cell.get("metadata")
    found = metadata.get("tags") if isinstance(metadata, Mapping) else None
    return found if isinstance(found, list) else ()


def get_cell_source(cell: Mapping[str, Any]) -> str:
    """Return the source of a cell as text. Notebooks contain it as text or as a list of lines."""
    text = cell.get("source")
    return text if isinstance(text, str) else "".join(map(str, text or ()))


def known_parameters(notebook: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the variables that the notebook's cell with the tag ``parameters``
    assigns. Return None if there is no such cell, or its code is not valid Python."""
    for cell in code_cells(notebook):
        if DEFAULTS in get_cell_tags(cell):
            return _find_assigned_names(get_cell_source(cell))
    return None


def list_warnings(notebook: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return warnings about parameters that are set for a run: one for each name in ``names`` that
    the notebook's cell ``parameters`` does not assign, or a single one if there is no such cell."""
    chosen = list(names)
    if not chosen:
        return []
    if not any(DEFAULTS in get_cell_tags(cell) for cell in code_cells(notebook)):
        return [
            f"The notebook has no cell with the tag {DEFAULTS}: the parameters are set before its "
            "first cell."
        ]
    known = known_parameters(notebook)
    if known is None:
        return []
    offered = f"it has {', '.join(known)}" if known else "its cell of parameters sets none"
    return [
        f"The notebook has no parameter {name}; {offered}." for name in chosen if name not in known
    ]


def render_parameters(parameters: Mapping[str, Any]) -> str:
    """Return Python code that assigns the parameters. Their values are JSON values, in which infinite
    numbers and NaN are encoded."""
    lines = [
        f"{name} = {_render_literal(decode_floats(value))}" for name, value in parameters.items()
    ]
    return "\n".join(["# Parameters", *lines])


def _render_literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_render_literal, value))}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{name!r}: {_render_literal(part)}' for name, part in value.items())}}}"
        )
    return repr(value)


def find_parameter_cell(cells: Sequence[Mapping[str, Any]]) -> tuple[int, bool]:
    """Return the index in ``cells`` for the cell with the values of a run, and whether it replaces
    the cell at this index, which an earlier run has inserted. The cell follows the cell with the
    tag ``parameters``, or comes first if there is none."""
    for tag, replaces in ((INJECTED, True), (DEFAULTS, False)):
        for index, cell in enumerate(cells):
            if cell.get("cell_type") == "code" and tag in get_cell_tags(cell):
                return (index, True) if replaces else (index + 1, False)
    return 0, False


def _find_assigned_names(code: str) -> list[str] | None:
    python = "\n".join(
        "" if line.lstrip().startswith(("%", "!", "?")) else line for line in code.splitlines()
    )
    try:
        body = ast.parse(python).body
    except (SyntaxError, ValueError):
        return None
    targets: list[ast.expr] = []
    for statement in body:
        if isinstance(statement, ast.Assign):
            targets += statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets.append(statement.target)
    names = [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]
    return list(dict.fromkeys(names))
