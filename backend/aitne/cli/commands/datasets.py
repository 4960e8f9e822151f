"""``dataset``: entries of the catalogue, and comparison of files with their manifests."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.differences import MOST_SHOWN, several, show, summary, write
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aitne.client import Client
    from aitne.client.datasets import Dataset
    from aitne.client.manifests import Difference, Listed, Verification

datasets = group_app("Datasets: list, add, share, verify.")

FAILED, INVALID = 1, 2

Reference = Annotated[
    str,
    typer.Argument(metavar="NAME[:VERSION]", help="The dataset; without a version the newest."),
]
Project = Annotated[str, typer.Argument(metavar="PROJECT", help="The project.")]


@datasets.command("ls", epilog=examples("aitne dataset ls"))
def dataset_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the datasets that you may read."""
    found = connect(url, data_dir).datasets.list()
    return output.listing(
        as_json,
        found,
        ("NAME", "VERSION", "SIZE", "FILES", "OWNER", "PROJECTS", "STATE"),
        lambda each: (
            each.name,
            each.version,
            output.memory(each.size_bytes),
            each.files,
            each.owner,
            ", ".join(each.projects),
            _state(each),
        ),
    )


@datasets.command("show", epilog=examples("aitne dataset show div2k\naitne dataset show div2k:1.0"))
def datasetshow(
    reference: Reference, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show one version of a dataset, and how to read it in a job."""
    found = connect(url, data_dir).datasets.get(reference)
    if as_json:
        output.answer_json(found.raw)
        return 0
    verified = f"{output.moment(found.verified_at)} by {found.verified_by}"
    output.facts(
        [
            ("Dataset", found.reference),
            ("About", found.description),
            ("Licence", found.licence),
            ("Owner", found.owner),
            ("Projects", ", ".join(found.projects) or "none: only its owner may read it"),
            ("Path", found.path),
            ("In a job", f"$AITNE_DATASETS/{found.name}"),
            ("Size", f"{output.memory(found.size_bytes)} in {found.files} files"),
            ("Manifest", found.manifest),
            ("Added", output.moment(found.created_at)),
            ("Verified", verified if found.verified_at else "not since it was added"),
            ("State", _state(found)),
        ]
    )
    return 0


@datasets.command(
    "add",
    epilog=examples(
        "aitne dataset add div2k /data/div2k --version 1.0 --licence 'academic use'\n"
        "aitne dataset add faces ./faces --version 2026-11 --project vision --yes"
    ),
)
def dataset_add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name: a-z, 0-9, '.', '_' and '-'.")
    ],
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The folder with its files, on the cluster.")
    ],
    version: Annotated[str, typer.Option("--version", metavar="V", help="The version, once.")],
    description: Annotated[str, typer.Option("--description", help="What it is.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="What may be done with it.")] = "",
    project: Annotated[
        str | None,
        typer.Option("--project", help="Whose members may read it; unset: your default project."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Add a folder to the catalogue, as a version of a dataset.

    Every file is read here, with all cores, for its checksum; the files stay where they are. Do not
    change them afterwards: new files need a new version. After an interruption the same command
    resumes where it stopped.
    """
    from aitne.cli.meter import Meter
    from aitne.client.manifests import Difference, make

    client = connect(url, data_dir)
    fields = {
        "name": name,
        "version": version,
        "path": _on_the_cluster(path),
        "description": description,
        "licence": licence,
        "project": project,
    }
    _refuse_taken(client, name, version)
    client.datasets.check(fields)
    readers = project or client.me().user.default_project
    meter = Meter()

    def agree(listed: Listed) -> None:
        meter.stop()
        output.facts(
            [
                ("Dataset", f"{name}:{version}"),
                ("About", description),
                ("Licence", licence),
                ("Path", listed.root),
                ("Size", f"{output.memory(listed.size_bytes)} in {listed.files} files"),
                ("Links", listed.links or None),
                ("Readable by", f"you and the members of {readers}"),
            ],
            file=sys.stderr,
        )
        if not yes:
            output.confirm("Read all its files and add it?")

    with _going_on_later(), meter:
        made = make(path, listed=agree, journal_dir=_journals(), heard=meter)
    if made.problems:
        problems = [Difference(each.path, each.kind, each.reason) for each in made.problems]
        return _refuse(f"{name}:{version}", problems, as_json=as_json)
    found = client.datasets.add(fields, manifest=made.digest, text=[made.text])
    made.forget()
    if as_json:
        output.answer_json(found.raw)
        return 0
    output.say(
        f"Added. In a job file: `datasets: [{found.reference}]`. "
        f"Share it: `aitne dataset grant {found.reference} PROJECT`."
    )
    output.answer(found.reference)
    return 0


@datasets.command(
    "verify",
    epilog=examples(
        "aitne dataset verify div2k\n"
        "aitne dataset verify div2k:1.0 --report differences.tsv\n"
        "aitne dataset verify div2k:1.0 --path /mnt/copy/div2k"
    ),
)
def dataset_verify(
    reference: Reference,
    path: Annotated[
        Path | None,
        typer.Option("--path", metavar="DIR", help="Compare a copy; the result is not noted."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write every difference there."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Read every file again and list each one that differs.

    The files are compared with the manifest of the time when the dataset was added. The platform
    records the result, and plans of jobs that read a damaged dataset warn of it. Exit status 1
    means that something differs. After an interruption the same command resumes where it stopped.
    """
    from aitne.cli.meter import Meter
    from aitne.client.manifests import verify

    client = connect(url, data_dir)
    dataset = client.datasets.get(reference)
    text = client.datasets.manifest(dataset.reference)
    with _going_on_later(), Meter() as meter:
        found = verify(path or dataset.path, text, journal_dir=_journals(), heard=meter)
    noted = _note(client, dataset, found)
    if report is None and len(found.differences) > MOST_SHOWN and not as_json:
        report = _journals() / "reports" / f"{dataset.name}-{dataset.version}.tsv"
    if report is not None:
        write(report, found.differences)
    if as_json:
        output.answer_json(
            {
                "dataset": dataset.reference,
                "path": found.root,
                "manifest": found.manifest,
                "files": found.files,
                "size_bytes": found.size_bytes,
                "ok": found.ok,
                "damaged_files": found.damaged_files,
                "noted": noted,
                "differences": [each.raw for each in found.differences],
            }
        )
    elif found.differences:
        show(found.differences, sys.stdout)
    said = f"{dataset.reference} in {output.plain(found.root)}: "
    if found.ok:
        output.say(f"{said}all {found.files} files are as they were when it was added.")
        return 0
    output.say(f"aitne: {said}{summary(found)}")
    if report is not None:
        output.say(f"All of them: {report}")
    return FAILED


@datasets.command("grant", epilog=examples("aitne dataset grant div2k:1.0 vision"))
def dataset_grant(
    reference: Reference,
    project: Project,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Allow the members of a project to read one of your datasets."""
    found = connect(url, data_dir).datasets.grant(reference, project)
    return output.done(
        as_json, found.raw, f"{found.reference}: readable by {', '.join(found.projects)}."
    )


@datasets.command("revoke", epilog=examples("aitne dataset revoke div2k:1.0 vision --yes"))
def dataset_revoke(
    reference: Reference,
    project: Project,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Withdraw a project's permission to read a dataset. Jobs that read it already continue."""
    client = connect(url, data_dir)
    dataset = client.datasets.get(reference)
    if not yes:
        output.confirm(f"Take {dataset.reference} away from {project}?")
    found = client.datasets.revoke(dataset.reference, project)
    left = ", ".join(found.projects) or "its owner alone"
    return output.done(as_json, found.raw, f"{found.reference}: readable by {left}.")


@datasets.command("retire", epilog=examples("aitne dataset retire div2k:1.0 --yes"))
def dataset_retire(
    reference: Reference,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Retire a version, so that new jobs cannot use it. Its files and its entry are kept."""
    client = connect(url, data_dir)
    dataset = client.datasets.get(reference)
    if not yes:
        output.confirm(f"Retire {dataset.reference}?")
    found = client.datasets.retire(dataset.reference)
    return output.done(as_json, found.raw, f"{found.reference}: retired; new jobs cannot name it.")


def _state(dataset: Dataset) -> str:
    words = ["retired"] if dataset.retired else []
    if dataset.damaged_files:
        words.append(f"damaged ({several(dataset.damaged_files, 'path')})")
    elif dataset.verified_at is not None:
        words.append("verified")
    return ", ".join(words)


def _refuse_taken(client: Client, name: str, version: str) -> None:
    """Raise ``Conflict`` for a version that exists already, as far as the user may see it."""
    from aitne.core.errors import Conflict, NotFound

    try:
        taken = client.datasets.get(f"{name}:{version}")
    except NotFound:
        return
    raise Conflict(
        f"{taken.reference} is in the catalogue already, added by {taken.owner}. A version never "
        "changes: give the new files another --version."
    )


def _on_the_cluster(path: Path) -> str:
    """Return the path under which the platform is to know the folder: as written, if it is absolute
    and has no ``..``.

    A link in it, such as /home to another disk, is kept: it is the site's own name for the folder.
    """
    from aitne.core.errors import InvalidInput

    written = os.path.normpath(path)
    if not path.is_absolute() or ".." in path.parts:
        written = os.path.realpath(path)
    if not written.isprintable():
        raise InvalidInput.field(
            "PATH", "it has characters that no dataset's path may have", value=output.plain(written)
        )
    return written


@contextlib.contextmanager
def _going_on_later() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        output.say("\nInterrupted. What was read is kept: run the same command again to go on.")
        raise


def _journals() -> Path:
    from aitne.core.settings import cache_dir

    return cache_dir() / "datasets"


def _refuse(reference: str, problems: Sequence[Difference], *, as_json: bool) -> int:
    """Report why a folder cannot become a dataset, and return the exit status."""
    message = (
        f"{reference} was not added: {several(len(problems), 'path')} cannot be in a dataset as "
        "they are. Mend or remove them, then run the command again; what was read is kept."
    )
    if as_json:
        found = [each.raw for each in problems]
        error = {"code": "unfit", "message": message, "differences": found}
        output.answer_json({"error": error})
    else:
        show(problems, sys.stderr)
    output.say(f"aitne: {message}")
    return INVALID


def _note(client: Client, dataset: Dataset, found: Verification) -> bool:
    """Report the result to the platform, if the dataset itself was compared. Return whether it was
    recorded."""
    from aitne.core.errors import AitneError

    if found.manifest != dataset.manifest:
        raise AitneError(
            f"The platform sent another manifest than that of {dataset.reference}: "
            f"{found.manifest} instead of {dataset.manifest}. Tell an administrator."
        )
    if found.root != os.path.realpath(dataset.path):
        return False
    if not found.damaged_files and not found.ok:
        return False
    try:
        client.datasets.note_verification(
            dataset.reference, manifest=found.manifest, damaged_files=found.damaged_files
        )
    except AitneError as error:
        output.say(f"The result could not be noted: {error.message}")
        return False
    return True


apps = {"dataset": datasets}
