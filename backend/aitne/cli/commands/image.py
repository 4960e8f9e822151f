"""``image``: images that jobs run in; ``admin image grant`` and ``revoke``: the projects that may
use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app

if TYPE_CHECKING:
    from aitne.client.images import Image

images = group_app("Container images: list, show.")
admin_images = group_app("Images: which projects see them.")

EVERYBODY = "everybody"

Reference = Annotated[
    str,
    typer.Argument(
        metavar="NAME[:VERSION]", help="The image; without a version the newest that is offered."
    ),
]
Project = Annotated[str, typer.Argument(metavar="PROJECT", help="The project.")]


@images.command("ls", epilog=examples("aitne image ls"))
def image_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the images that your jobs may use. Administrators see all."""
    found = connect(url, data_dir).images.list()
    return output.listing(
        as_json,
        found,
        ("NAME", "VERSION", "RUNTIMES", "SIZE", "APPS", "NEEDS", "SEEN BY", "STATE"),
        lambda each: (
            each.name,
            each.version,
            " ".join(artifact.runtime for artifact in each.artifacts),
            output.memory(max((a.size_bytes for a in each.artifacts), default=None)),
            " ".join(sorted(each.apps)),
            _needs(each),
            _seen_by(each),
            _state(each),
        ),
    )


@images.command(
    "show", epilog=examples("aitne image show jupyter\naitne image show jupyter:1.0 --packages")
)
def image_show(
    reference: Reference,
    packages: Annotated[
        bool, typer.Option("--packages", help="Show the software bill too: every package in it.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show one image: its files, apps, requirements and packages."""
    found = connect(url, data_dir).images.get(reference)
    if as_json:
        output.answer_json(found.raw)
        return 0
    bill = f"{len(found.packages)}" + ("" if packages else ", shown with --packages")
    output.facts(
        [
            ("Image", found.reference),
            ("About", found.description),
            ("Apps", ", ".join(sorted(found.apps))),
            ("Needs", _needs(found)),
            ("Variables", ", ".join(sorted(found.env))),
            ("Seen by", _seen_by(found)),
            ("State", _state(found)),
            ("Damage", found.damage),
            ("Added", f"{output.moment(found.created_at)} by {found.created_by}"),
            ("Verified", output.moment(found.verified_at)),
            ("Packages", bill if found.packages else None),
        ]
    )
    output.answer("")
    output.table(
        ("RUNTIME", "SIZE", "DIGEST", "PATH"),
        [(a.runtime, output.memory(a.size_bytes), a.digest, a.path or "") for a in found.artifacts],
    )
    if packages:
        output.answer("")
        output.table(
            ("PACKAGE", "VERSION", "SOURCE"),
            [(each.name, each.version, each.source) for each in found.packages],
        )
    return 0


@admin_images.command(
    "grant",
    epilog=examples(
        "aitne admin image grant jupyter:1.0 vision\n"
        "aitne admin image grant jupyter:1.0 --everybody --yes"
    ),
)
def image_grant(
    reference: Reference,
    project: Annotated[
        str | None, typer.Argument(metavar="[PROJECT]", help="Whose members see it.")
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Not only certain projects: all users.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Allow a project's members to use an image. One that was open to all users is then restricted
    to them."""
    if (project is None) is not everybody:
        raise typer.BadParameter("Name a project, or say --everybody.")
    client = connect(url, data_dir)
    image = client.images.get(reference)
    if not yes and everybody and image.projects:
        output.confirm(f"Let everybody see {image.reference}, not only {_seen_by(image)}?")
    if not yes and project is not None and not image.projects:
        output.confirm(f"Everybody sees {image.reference}. Let only the members of {project}?")
    wanted = [] if project is None else sorted({*image.projects, project})
    return _answer(client.images.set_projects(image.reference, wanted), as_json=as_json)


@admin_images.command("revoke", epilog=examples("aitne admin image revoke jupyter:1.0 vision"))
def image_revoke(
    reference: Reference,
    project: Project,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Withdraw a project's permission to use an image. Running jobs continue."""
    from aitne.core.errors import Conflict

    client = connect(url, data_dir)
    image = client.images.get(reference)
    left = [name for name in image.projects if name != project]
    if project not in image.projects:
        raise Conflict(f"{image.reference} is seen by {_seen_by(image)}: nothing to take back.")
    if not left:
        raise Conflict(
            f"{image.reference} is seen by {project} alone, and one for no project is for everybody. "
            f"Retire it (`aitne admin image retire {image.reference}`), grant it to another project "
            "first, or let everybody see it: "
            f"`aitne admin image grant {image.reference} --everybody`."
        )
    if not yes:
        output.confirm(f"Take {image.reference} away from {project}?")
    return _answer(client.images.set_projects(image.reference, left), as_json=as_json)


def _answer(image: Image, *, as_json: bool) -> int:
    return output.done(as_json, image.raw, f"{image.reference}: seen by {_seen_by(image)}.")


def _seen_by(image: Image) -> str:
    return ", ".join(image.projects) or EVERYBODY


def _needs(image: Image) -> str:
    cuda = image.needs.get("cuda")
    return "" if cuda is None else f"CUDA {cuda}"


def _state(image: Image) -> str:
    return "damaged" if image.damage else image.state


apps = {"image": images}
