"""``template``: templates of sessions and jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import completion, output
from aitne.cli.command_registry import LOOK, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url


@group("template", LOOK)
def templates() -> None:
    """List and show templates of sessions and jobs."""


@templates.command("ls")
def template_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the templates. Administrators also see the files that were rejected."""
    templates = make_client(url, data_dir).templates
    valid_templates = templates.list()
    for problem in templates.problems():
        location = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
        output.print_message(
            f"Rejected {output.to_single_line(location)}: {output.to_single_line(problem.reason)}"
        )
    return output.print_list(
        as_json,
        valid_templates,
        ("NAME", "VERSION", "TYPE", "TITLE"),
        lambda item: (item.name, item.version, item.type, item.title),
    )


@templates.command("show")
def template_show(
    name: Annotated[
        str, typer.Argument(help="A template's name.", autocompletion=completion.complete_templates)
    ],
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show one template and its parameters."""
    template = make_client(url, data_dir).templates.get(name)
    if as_json:
        output.print_json(template.raw)
        return 0
    output.print_facts(
        [
            ("Name", f"{template.name} {template.version}"),
            ("Title", template.title),
            ("Type", template.type),
            ("Image", template.image),
            ("About", (template.description or "").strip()),
        ]
    )
    if template.parameters:
        output.print_line("")
        output.print_table(
            ("PARAMETER", "TYPE", "DEFAULT", "ABOUT"),
            [
                (
                    item.name,
                    "|".join(item.choices) if item.choices else item.type,
                    "(needed)" if item.default is None else output.to_single_line(item.default, 40),
                    item.description or item.title,
                )
                for item in template.parameters
            ],
        )
    return 0
