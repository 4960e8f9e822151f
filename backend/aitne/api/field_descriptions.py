"""Descriptions of fields for the OpenAPI document, taken from the docstrings below the fields.

Pydantic could read those too (``use_attribute_docstrings``), but at every start of every program;
here they are read only when the document is requested. Pydantic omits the description of a field
whose type is another model, so that is added here. ``COMMON`` describes names that have the same
meaning in all models.
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
    "items": "Entries of this page.",
    "next_cursor": "Value of `cursor` for the next page; null on the last page.",
    "total": "Number of entries on all pages.",
    "as_of": "Time at which the data was read.",
    "stale": "Whether the data is older than it should be.",
    "created_at": "Time of creation.",
    "created_by": "Login name of the user who created it.",
    "seen_at": "Time at which the scheduler last reported it.",
    "verified_at": "Time of the last verification; null: never.",
    "verified_by": "Login name of the user who verified it.",
    "owner": "Login name of the owner.",
    "project": "Project to which it is accounted.",
    "projects": "Projects that may use it.",
    "user": "Login name of the user.",
    "cluster": "Name of the cluster.",
    "node": "Name of the node.",
    "path": "Absolute path.",
    "size_bytes": "Size in bytes.",
    "files": "Number of files.",
    "title": "Title for display.",
    "description": "Description in a sentence or two.",
    "reason": "Reason.",
    "message": "The same as a sentence for users.",
    "state": "Current state.",
    "version": "Version.",
    "name": "Name.",
    "type": "Type.",
    "kind": "Kind.",
    "env": "Environment variables of its programs.",
    "image": "Image that it runs in, as `name` or `name:version`; null: none.",
    "template": "Template from which it was created; null: none.",
    "template_version": "Version of that template.",
    "parameters": "Values of the template's parameters.",
    "commands": "Commands, run one after the other, each by `bash -c`.",
    "resources": "Resources on each node.",
    "default": "Default value.",
    "min": "Minimum.",
    "max": "Maximum.",
    "minimum": "Minimum.",
    "maximum": "Maximum.",
    "count": "Number.",
    "used": "Amount in use.",
    "free": "Amount that is free.",
    "id": "Identifier, which never changes.",
    "role": "Role, which determines the permitted actions.",
    "scopes": "Scopes, which determine the permitted requests.",
    "expires_at": "Time at which it expires; null: never.",
    "last_used_at": "Time of the last use; null: never.",
    "display_name": "Name for display.",
    "disabled": "Whether logins to the account are disabled.",
    "password": "The password.",
    "token": "The token itself, which is shown only once.",
    "url": "URL.",
    "time": "Time.",
    "starts_at": "Start time.",
    "ends_at": "End time.",
    "started_at": "Time at which it started.",
    "ended_at": "Time at which it ended.",
    "cpu": "CPUs.",
    "gpu": "GPUs.",
    "gpus": "GPUs, by type.",
    "memory_bytes": "Memory in bytes.",
    "workdir": "Folder in which its commands start.",
    "platform": "Description of the platform.",
    "field": "Dotted path of the field: `resources.gpu`.",
    "value": "The given value, as text; null: none.",
    "allowed": "What is allowed; null: see the message.",
}


def add_descriptions(schemas: dict[str, Any]) -> None:
    """Add a description to each property of the OpenAPI ``schemas`` that has none, if the field has
    a docstring or an entry in ``COMMON``. ``schemas`` is changed in place."""
    models = _list_models()
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        alike = models.get(name.removesuffix("-Input").removesuffix("-Output"), [])
        words = next(
            (
                _describe_fields(model)
                for model in alike
                if _list_field_names(model) == set(properties)
            ),
            {},
        )
        for field, property_ in properties.items():
            text = words.get(field) or COMMON.get(field)
            if text is not None and not property_.get("description"):
                property_["description"] = text


def _list_models() -> dict[str, list[type[BaseModel]]]:
    """Return all pydantic models by class name; several modules may define classes of the same
    name."""
    models: dict[str, list[type[BaseModel]]] = {}
    for model in _list_subclasses(BaseModel):
        models.setdefault(model.__name__, []).append(model)
    return models


def _list_field_names(model: type[BaseModel]) -> set[str]:
    fields = {field.alias or name for name, field in model.model_fields.items()}
    return fields | model.model_computed_fields.keys()


def _describe_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field of a model, by the field's name in the OpenAPI
    document."""
    strings = _read_docstrings(model)
    return {
        field.alias or name: field.description or strings.get(name, "")
        for name, field in model.model_fields.items()
    }


def _list_subclasses(parent: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in parent.__subclasses__():
        yield model
        yield from _list_subclasses(model)


def _read_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields by name, including inherited fields; a docstring in
    a subclass replaces its parent's."""
    docstrings: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if issubclass(parent, BaseModel) and parent is not BaseModel:
            docstrings |= _read_own_docstrings(parent)
    return docstrings


@cache
def _read_own_docstrings(model: type[BaseModel]) -> dict[str, str]:
    try:
        (tree,) = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(model)}")).body
    except (OSError, SyntaxError, ValueError):
        return {}  # created at run time, or without its source
    if not isinstance(tree, ast.ClassDef):
        return {}
    docstrings = {}
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            docstrings[node.target.id] = _to_markdown(after.value.value)
    return docstrings


def _to_markdown(docstring: str) -> str:
    """Return a docstring as Markdown, with null in place of None, as in JSON."""
    return re.sub(r"\bNone\b", "null", inspect.cleandoc(docstring).replace("``", "`"))
