"""``apply`` and ``plan``: job files."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Wait, Yes, verb_app
from aitne.core.errors import InvalidInput

File = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="The job file; - is standard input.")
]


def apply(
    file: File,
    yes: Yes = False,
    wait: Wait = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it is submitted (the default).")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Submit a job file: show the plan, ask, submit.

    With --wait the log of a job is followed to its end, and the exit status is 1 if the job fails;
    for a session the command waits until it is ready. Ctrl-C leaves it running.
    """
    if wait and detach:
        raise InvalidInput("--wait follows the job and --detach leaves it alone: pass only one.")
    from aitne.cli import jobfile, submit

    source = jobfile.read(file)
    try:
        submit.submit(connect(url, data_dir), source.content, yes=yes, wait=wait, as_json=as_json)
    except InvalidInput as error:
        raise source.locate(error) from error
    return 0


def plan(
    file: File,
    script: Annotated[bool, typer.Option("--script", help="Print the exact batch script.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show what a job file would become.

    Nothing is submitted.
    """
    from aitne.cli import jobfile, submit

    source = jobfile.read(file)
    try:
        job_plan = connect(url, data_dir).jobs.plan(source.content)
        if as_json:
            output.answer_json(job_plan.raw)
        elif script:
            sys.stdout.write(job_plan.script)
        else:
            submit.show_plan(job_plan, file=sys.stdout)
        submit.refuse_unfit(job_plan)
    except InvalidInput as error:
        raise source.locate(error) from error
    return 0


apps = {
    "apply": verb_app(
        "apply",
        apply,
        example="""
aitne apply -f job.aitne.yml                  ask, submit, return
aitne apply -f job.aitne.yml --yes --wait     submit and follow to the end
aitne apply -f job.aitne.yml --yes --json     submit; the job as JSON
""",
    ),
    "plan": verb_app(
        "plan",
        plan,
        example="""
aitne plan -f job.aitne.yml
aitne plan -f job.aitne.yml --script
""",
    ),
}
