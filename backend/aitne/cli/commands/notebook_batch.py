"""``batch``: run a notebook as a job."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import (
    Cpu,
    DataDir,
    Datasets,
    Gpu,
    Image,
    Json,
    MaxDuration,
    Memory,
    Nodes,
    ProjectOption,
    Url,
    Wait,
    Yes,
)
from aitne.core.errors import InvalidInput
from aitne.notebook import notebook_parameters


@command(
    "batch",
    WORK,
    example="""
aitne batch train.ipynb                        ask, submit, return
aitne batch train.ipynb -p lr=0.1 -p epochs=5  with other parameters
aitne batch train.ipynb --gpu a100:1 --yes --wait
aitne batch train.ipynb --nodes 2 --venv ~/env  with ranks on two nodes
aitne batch study/train.ipynb --sync study     upload the folder, run a copy
""",
)
def batch(
    notebook: Annotated[str, typer.Argument(metavar="NOTEBOOK", help="The notebook's file.")],
    rest: Annotated[
        list[str] | None,
        typer.Argument(hidden=True, help="Words after the notebook, which are refused."),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter; may be repeated."),
    ] = None,
    sync: Annotated[
        str | None,
        typer.Option(
            "--sync",
            metavar="DIR",
            help="Upload the files of DIR, which has the notebook, and run it in a copy of them.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the job.")] = None,
    project: ProjectOption = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    nodes: Nodes = None,
    max_duration: MaxDuration = None,
    image: Image = None,
    venv: Annotated[
        str | None,
        typer.Option(
            "--venv",
            metavar="DIR",
            help="A virtual environment for the kernel and the ranks; it needs ipykernel.",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel", "-k", metavar="NAME", help="The kernel, instead of the one that it names."
        ),
    ] = None,
    datasets: Datasets = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Run a notebook as a job: show the plan, ask, submit.

    All cells run from the first to the last, and the executed copy is on the job's page. Parameters
    are set after the cell with the tag parameters, which has their defaults; their values are
    written as in YAML. With --venv a notebook in Python runs in that environment, whichever kernel it
    names. With several nodes, cells that begin with %%distributed run on ranks on each
    of them. Without --sync the cluster must have the notebook under the same path.
    """
    from aitne.cli import job_submission

    chosen = _parse_parameters(parameters or [])
    if rest:
        raise InvalidInput(f"There is one notebook, and {rest[0]} is left over.")
    for sentence in notebook_parameters.list_warnings(_read_notebook(notebook), chosen):
        output.print_message(f"Warning: {sentence}")
    path = os.path.abspath(notebook)
    if sync is not None:
        path = os.path.relpath(os.path.realpath(notebook), os.path.realpath(sync))
        if path.startswith(".."):
            raise InvalidInput.field(
                "--sync", "the notebook is not in this folder", value=sync, allowed="its folder"
            )
    client = make_client(url, data_dir)
    resources = {"cpu": cpu, "memory": memory, "gpu": gpu, "nodes": nodes}
    job_file: dict[str, Any] = {
        "name": name,
        "project": project,
        "notebook": {"path": path, "parameters": chosen}
        | ({} if kernel is None else {"kernel": kernel}),
        "tree": None if sync is None else job_submission.upload_tree(client, sync),
        "max_duration": max_duration,
        "image": image,
        "environment": None
        if venv is None
        else {"venv": os.path.abspath(os.path.expanduser(venv))},
        "datasets": datasets or None,
        "resources": {field: value for field, value in resources.items() if value is not None}
        or None,
    }
    fields = {field: value for field, value in job_file.items() if value is not None}
    job_submission.submit_job_file(client, fields, yes=yes, wait=wait, as_json=as_json)
    return 0


def _read_notebook(path: str) -> dict[str, Any]:
    """Return the content of the notebook. Raises ``InvalidInput`` if it cannot be read or is
    none."""
    try:
        with open(path, "rb") as file:
            data = file.read(notebook_parameters.MAX_BYTES + 1)
        return notebook_parameters.parse_notebook(data)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except notebook_parameters.NotANotebook as error:
        raise InvalidInput(f"{path} {error}.") from error


def _parse_parameters(texts: list[str]) -> dict[str, Any]:
    """Return the values of ``NAME=VALUE`` texts by name. Raises ``InvalidInput`` for a text of
    another form."""
    from aitne.cli import job_file_reader

    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput.field(
                "--param",
                "it has no value, which follows an equals sign, not a blank as for papermill",
                value=text,
                allowed=f"{name or 'NAME'}=VALUE, such as lr=0.1",
            )
        if name in values:
            raise InvalidInput.field("--param", f"{name} is given twice", value=text)
        values[name] = job_file_reader.parse_value(value)
    return values
