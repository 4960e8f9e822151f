"""``dataset``: entries of the catalogue, and comparison of files with their manifests."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, ProjectArgument, Url, Yes
from aitne.cli.views.dataset_verification import (
    MOST_SHOWN,
    format_count,
    format_summary,
    print_differences,
    write_differences,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aitne.client import Client
    from aitne.client.datasets import DatasetRecord
    from aitne.client.manifests import FolderListing, ManifestDifference, Verification


@group("dataset", LOOK)
def datasets() -> None:
    """List, add, share and verify datasets."""


FAILED, INVALID = 1, 2

Reference = Annotated[
    str,
    typer.Argument(metavar="NAME[:VERSION]", help="The dataset; without a version the newest."),
]


@datasets.command("ls", epilog=examples("aitne dataset ls"))
def dataset_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the datasets that you may read."""
    catalogue = make_client(url, data_dir).datasets.list()
    return output.print_list(
        as_json,
        catalogue,
        ("NAME", "VERSION", "SIZE", "FILES", "OWNER", "PROJECTS", "STATE"),
        lambda dataset: (
            dataset.name,
            dataset.version,
            output.format_memory(dataset.size_bytes),
            dataset.files,
            dataset.owner,
            ", ".join(dataset.projects),
            _format_state(dataset),
        ),
    )


@datasets.command("show", epilog=examples("aitne dataset show div2k\naitne dataset show div2k:1.0"))
def dataset_show(
    reference: Reference, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show one version of a dataset, and how to read it in a job."""
    dataset = make_client(url, data_dir).datasets.get(reference)
    if as_json:
        output.print_json(dataset.raw)
        return 0
    verified = f"{output.format_time(dataset.verified_at)} by {dataset.verified_by}"
    output.print_facts(
        [
            ("Dataset", dataset.reference),
            ("About", dataset.description),
            ("Licence", dataset.licence),
            ("Owner", dataset.owner),
            ("Projects", ", ".join(dataset.projects) or "none: only its owner may read it"),
            ("Path", dataset.path),
            ("In a job", f"$AITNE_DATASETS/{dataset.name}"),
            ("Size", f"{output.format_memory(dataset.size_bytes)} in {dataset.files} files"),
            ("Manifest", dataset.manifest),
            ("Added", output.format_time(dataset.created_at)),
            ("Verified", verified if dataset.verified_at else "not since it was added"),
            ("State", _format_state(dataset)),
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
    version: Annotated[
        str, typer.Option("--version", metavar="V", help="The version; must be new.")
    ],
    description: Annotated[str, typer.Option("--description", help="Description.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Terms of use.")] = "",
    project: Annotated[
        str | None,
        typer.Option("--project", help="Project that may read it; unset: your default project."),
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
    from aitne.cli.progress_meter import ProgressMeter
    from aitne.client.manifests import ManifestDifference, make

    client = make_client(url, data_dir)
    fields = {
        "name": name,
        "version": version,
        "path": _get_cluster_path(path),
        "description": description,
        "licence": licence,
        "project": project,
    }
    _check_version_free(client, name, version)
    client.datasets.check(fields)
    readers = project or client.me().user.default_project
    meter = ProgressMeter()

    def confirm_listing(listed: FolderListing) -> None:
        meter.remove_bar()
        output.print_facts(
            [
                ("Dataset", f"{name}:{version}"),
                ("About", description),
                ("Licence", licence),
                ("Path", listed.root),
                ("Size", f"{output.format_memory(listed.size_bytes)} in {listed.files} files"),
                ("Links", listed.links or None),
                ("Readable by", f"you and the members of {readers}"),
            ],
            file=sys.stderr,
        )
        if not yes:
            output.require_confirmation("Read all its files and add it?")

    with _note_kept_progress(), meter:
        made = make(path, listed=confirm_listing, journal_dir=_get_journals_dir(), heard=meter)
    if made.problems:
        problems = [
            ManifestDifference(problem.path, problem.kind, problem.reason)
            for problem in made.problems
        ]
        return _print_refusal(f"{name}:{version}", problems, as_json=as_json)
    dataset = client.datasets.add(fields, manifest=made.digest, text=[made.text])
    made.delete_journal()
    if as_json:
        output.print_json(dataset.raw)
        return 0
    output.print_message(
        f"Added. In a job file: `datasets: [{dataset.reference}]`. "
        f"Share it: `aitne dataset grant {dataset.reference} PROJECT`."
    )
    output.print_line(dataset.reference)
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
        typer.Option("--path", metavar="DIR", help="Compare a copy; the result is not recorded."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="File for all differences."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Read every file again and list each one that differs.

    The files are compared with the manifest that was made when the dataset was added. The platform
    records the result, and plans of jobs that read a damaged dataset contain a warning. Exit status
    1 means that something differs. After an interruption the same command resumes where it stopped.
    """
    from aitne.cli.progress_meter import ProgressMeter
    from aitne.client.manifests import verify

    client = make_client(url, data_dir)
    dataset = client.datasets.get(reference)
    text = client.datasets.manifest(dataset.reference)
    with _note_kept_progress(), ProgressMeter() as meter:
        verification = verify(
            path or dataset.path, text, journal_dir=_get_journals_dir(), heard=meter
        )
    noted = _report_verification(client, dataset, verification)
    if report is None and len(verification.differences) > MOST_SHOWN and not as_json:
        report = _get_journals_dir() / "reports" / f"{dataset.name}-{dataset.version}.tsv"
    if report is not None:
        write_differences(report, verification.differences)
    if as_json:
        output.print_json(
            {
                "dataset": dataset.reference,
                "path": verification.root,
                "manifest": verification.manifest,
                "files": verification.files,
                "size_bytes": verification.size_bytes,
                "ok": verification.ok,
                "damaged_files": verification.damaged_files,
                "noted": noted,
                "differences": [difference.raw for difference in verification.differences],
            }
        )
    elif verification.differences:
        print_differences(verification.differences, sys.stdout)
    prefix = f"{dataset.reference} in {output.to_single_line(verification.root)}: "
    if verification.ok:
        output.print_message(
            f"{prefix}all {verification.files} files are unchanged since it was added."
        )
        return 0
    output.print_message(f"aitne: {prefix}{format_summary(verification)}")
    if report is not None:
        output.print_message(f"All of them: {report}")
    return FAILED


@datasets.command("grant", epilog=examples("aitne dataset grant div2k:1.0 vision"))
def dataset_grant(
    reference: Reference,
    project: ProjectArgument,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Allow the members of a project to read one of your datasets."""
    dataset = make_client(url, data_dir).datasets.grant(reference, project)
    return output.print_done(
        as_json, dataset.raw, f"{dataset.reference}: readable by {', '.join(dataset.projects)}."
    )


@datasets.command("revoke", epilog=examples("aitne dataset revoke div2k:1.0 vision --yes"))
def dataset_revoke(
    reference: Reference,
    project: ProjectArgument,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Withdraw a project's permission to read a dataset. Running jobs that read it continue."""
    client = make_client(url, data_dir)
    dataset = client.datasets.get(reference)
    if not yes:
        output.require_confirmation(f"Withdraw {dataset.reference} from {project}?")
    updated = client.datasets.revoke(dataset.reference, project)
    readers = ", ".join(updated.projects) or "its owner alone"
    return output.print_done(as_json, updated.raw, f"{updated.reference}: readable by {readers}.")


@datasets.command("retire", epilog=examples("aitne dataset retire div2k:1.0 --yes"))
def dataset_retire(
    reference: Reference,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Retire a version, so that new jobs cannot use it. Its files and its entry are kept."""
    client = make_client(url, data_dir)
    dataset = client.datasets.get(reference)
    if not yes:
        output.require_confirmation(f"Retire {dataset.reference}?")
    updated = client.datasets.retire(dataset.reference)
    return output.print_done(
        as_json, updated.raw, f"{updated.reference}: retired; new jobs cannot name it."
    )


def _format_state(dataset: DatasetRecord) -> str:
    words = ["retired"] if dataset.retired else []
    if dataset.damaged_files:
        words.append(f"damaged ({format_count(dataset.damaged_files, 'path')})")
    elif dataset.verified_at is not None:
        words.append("verified")
    return ", ".join(words)


def _check_version_free(client: Client, name: str, version: str) -> None:
    """Raise ``Conflict`` if this version of the dataset exists already and the user may read it."""
    from aitne.core.errors import Conflict, NotFound

    try:
        taken = client.datasets.get(f"{name}:{version}")
    except NotFound:
        return
    raise Conflict(
        f"{taken.reference} is in the catalogue already, added by {taken.owner}. A version never "
        "changes: give the new files another --version."
    )


def _get_cluster_path(path: Path) -> str:
    """Return the absolute path under which the catalogue lists the folder.

    An absolute path without ``..`` is kept, including symbolic links such as /home, because these
    are the site's own names for its folders. Raises ``InvalidInput`` if it has unprintable
    characters.
    """
    from aitne.core.errors import InvalidInput

    cluster_path = os.path.normpath(path)
    if not path.is_absolute() or ".." in path.parts:
        cluster_path = os.path.realpath(path)
    if not cluster_path.isprintable():
        raise InvalidInput.field(
            "PATH",
            "it has characters that are not allowed in a dataset's path",
            value=output.to_single_line(cluster_path),
        )
    return cluster_path


@contextlib.contextmanager
def _note_kept_progress() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        output.print_message(
            "\nInterrupted. Progress is kept: run the same command again to resume."
        )
        raise


def _get_journals_dir() -> Path:
    from aitne.local_system.platform_folders import cache_dir

    return cache_dir() / "datasets"


def _print_refusal(reference: str, problems: Sequence[ManifestDifference], *, as_json: bool) -> int:
    """Print why a folder cannot become a dataset, and return the exit status."""
    message = (
        f"{reference} was not added: {format_count(len(problems), 'path')} cannot be in a dataset as "
        "they are. Fix or remove them, then run the command again; progress is kept."
    )
    if as_json:
        differences = [difference.raw for difference in problems]
        error = {"code": "unfit", "message": message, "differences": differences}
        output.print_json({"error": error})
    else:
        print_differences(problems, sys.stderr)
    output.print_message(f"aitne: {message}")
    return INVALID


def _report_verification(
    client: Client, dataset: DatasetRecord, verification: Verification
) -> bool:
    """Report the result of a verification to the platform; return whether it was recorded. It is
    not if a copy of the dataset was compared.

    Raises ``AitneError`` if the platform sent the wrong manifest.
    """
    from aitne.core.errors import AitneError

    if verification.manifest != dataset.manifest:
        raise AitneError(
            f"The platform sent another manifest than that of {dataset.reference}: "
            f"{verification.manifest} instead of {dataset.manifest}. Report this to an "
            "administrator."
        )
    if verification.root != os.path.realpath(dataset.path):
        return False
    if not verification.damaged_files and not verification.ok:
        return False
    try:
        client.datasets.note_verification(
            dataset.reference,
            manifest=verification.manifest,
            damaged_files=verification.damaged_files,
        )
    except AitneError as error:
        output.print_message(f"The result could not be recorded: {error.message}")
        return False
    return True
