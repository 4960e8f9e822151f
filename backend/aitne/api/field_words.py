"""Descriptions of fields for the OpenAPI document, taken from the code.

A field's docstring, the string below it, is its description. Pydantic could read those too
(``use_attribute_docstrings``), at every start of every program; here they are read only when the
document is requested. Pydantic omits a description beside a reference to another model, so that is
added here. ``COMMON`` describes names that have the same meaning in all models.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

COMMON = {
    "items": "What this page has.",
    "next_cursor": "To be sent as `cursor` for the next page; null on the last one.",
    "total": "How many there are on all pages.",
    "as_of": "When it was looked at.",
    "stale": "Whether that is longer ago than it should be.",
    "created_at": "When it was made.",
    "created_by": "Who made it.",
    "seen_at": "When the scheduler told of it last.",
    "verified_at": "When it was compared with its checksums last; null: never.",
    "verified_by": "Who did that.",
    "owner": "Whose it is: a login name.",
    "project": "The project that it is accounted to.",
    "projects": "The projects that may use it.",
    "user": "A login name.",
    "cluster": "The cluster's name.",
    "node": "A node's name.",
    "path": "Where it lies, as an absolute path.",
    "size_bytes": "Its size in bytes.",
    "files": "How many files it has.",
    "title": "How it is called where people read.",
    "description": "What it is, in a sentence or two.",
    "reason": "Why it is so.",
    "message": "The same in a sentence for people.",
    "state": "Where it stands.",
    "version": "Its version.",
    "name": "Its name.",
    "type": "Of which type.",
    "kind": "Of which kind.",
    "env": "Variables for its programs.",
    "image": "The image that it runs in, as `name` or `name:version`; null: none.",
    "template": "The template that it is made of; null: none.",
    "template_version": "The version of that template.",
    "parameters": "What the template's parameters are set to.",
    "commands": "What is run, one after the other, each by `bash -c`.",
    "resources": "What each node gives it.",
    "default": "What holds where nothing is said.",
    "min": "The least.",
    "max": "The most.",
    "minimum": "The least.",
    "maximum": "The most.",
    "count": "How many.",
    "used": "How much is in use.",
    "free": "How much is free.",
    "id": "Its id, which never changes.",
    "role": "What one may do.",
    "scopes": "What it permits.",
    "expires_at": "Until when it works; null: without an end.",
    "last_used_at": "When it was used last; null: never.",
    "display_name": "The name for people.",
    "disabled": "Whether nobody can log in to it.",
    "password": "The password.",
    "token": "The token itself, which is shown this once.",
    "url": "Where it is.",
    "time": "When.",
    "starts_at": "From when.",
    "ends_at": "Until when.",
    "started_at": "When it began.",
    "ended_at": "When it ended.",
    "cpu": "CPUs.",
    "gpu": "GPUs.",
    "gpus": "GPUs, by type.",
    "memory_bytes": "Memory in bytes.",
    "workdir": "The folder that its commands start in.",
    "platform": "Which platform this is.",
    "field": "Where, as a dotted path: `resources.gpu`.",
    "value": "What was given, as text; null: nothing.",
    "allowed": "What would have been accepted; null: see the message.",
}


def describe(schemas: dict[str, Any]) -> None:
    """Give each property without a description the one that its field has in the code."""
    models = _models()
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        alike = models.get(name.removesuffix("-Input").removesuffix("-Output"), [])
        words = next((_words(each) for each in alike if _names(each) == set(properties)), {})
        for field, property_ in properties.items():
            text = words.get(field) or COMMON.get(field)
            if text is not None and not property_.get("description"):
                property_["description"] = text


def _models() -> dict[str, list[type[BaseModel]]]:
    """Return all models by name; several modules may have one of the same name."""
    found: dict[str, list[type[BaseModel]]] = {}
    for model in _below(BaseModel):
        found.setdefault(model.__name__, []).append(model)
    return found


def _names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _words(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field in the code, by the field's name in the document."""
    strings = _docstrings(model)
    return {
        field.alias or name: field.description or strings.get(name, "")
        for name, field in model.model_fields.items()
    }


def _below(parent: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in parent.__subclasses__():
        yield model
        yield from _below(model)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields, also inherited ones; the nearest class takes
    precedence."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if issubclass(parent, BaseModel) and parent is not BaseModel:
            found |= _own(parent)
    return found


@cache
def _own(model: type[BaseModel]) -> dict[str, str]:
    try:
        (tree,) = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(model)}")).body
    except (OSError, SyntaxError, ValueError):
        return {}  # made while running, or with no source beside it
    if not isinstance(tree, ast.ClassDef):
        return {}
    found = {}
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[node.target.id] = _for_readers(after.value.value)
    return found


def _for_readers(docstring: str) -> str:
    """Return a docstring as Markdown, with JSON's null instead of None."""
    return re.sub(r"\bNone\b", "null", inspect.cleandoc(docstring).replace("``", "`"))
