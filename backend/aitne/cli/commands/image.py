"""``image``: images that jobs run in; ``admin image grant`` and ``revoke``: the projects that may
use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app

if TYPE_CHECKING:
    from aitne.client.images import ImageRecord

images = group_app("Container images: list, show.")
admin_images = group_app("Images: grant and revoke access.")

ALL_USERS = "all users"

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
    catalogue = connect(url, data_dir).images.list()
    return output.listing(
        as_json,
        catalogue,
        ("NAME", "VERSION", "RUNTIMES", "SIZE", "APPS", "NEEDS", "SEEN BY", "STATE"),
        lambda image: (
            image.name,
            image.version,
            " ".join(artifact.runtime for artifact in image.artifacts),
            output.memory(max((a.size_bytes for a in image.artifacts), default=None)),
            " ".join(sorted(image.apps)),
            _needs(image),
            _seen_by(image),
            _state(image),
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
    image = connect(url, data_dir).images.get(reference)
    if as_json:
        output.answer_json(image.raw)
        return 0
    bill = f"{len(image.packages)}" + ("" if packages else ", shown with --packages")
    output.facts(
        [
            ("Image", image.reference),
            ("About", image.description),
            ("Apps", ", ".join(sorted(image.apps))),
            ("Needs", _needs(image)),
            ("Variables", ", ".join(sorted(image.env))),
            ("Seen by", _seen_by(image)),
            ("State", _state(image)),
            ("Damage", image.damage),
            ("Added", f"{output.moment(image.created_at)} by {image.created_by}"),
            ("Verified", output.moment(image.verified_at)),
            ("Packages", bill if image.packages else None),
        ]
    )
    output.answer("")
    output.table(
        ("RUNTIME", "SIZE", "DIGEST", "PATH"),
        [(a.runtime, output.memory(a.size_bytes), a.digest, a.path or "") for a in image.artifacts],
    )
    if packages:
        output.answer("")
        output.table(
            ("PACKAGE", "VERSION", "SOURCE"),
            [(package.name, package.version, package.source) for package in image.packages],
        )
    return 0


@admin_images.command(
    "grant",
    epilog=examples(
        "aitne admin image grant jupyter:1.0 vision\n"
        "aitne admin image grant jupyter:1.0 --all-users --yes"
    ),
)
def image_grant(
    reference: Reference,
    project: Annotated[
        str | None, typer.Argument(metavar="[PROJECT]", help="Project that may use it.")
    ] = None,
    all_users: Annotated[
        bool, typer.Option("--all-users", help="All users, not only some projects.")
    ] = False,
    everybody: Annotated[
        bool, typer.Option("--everybody", hidden=True, help="Deprecated name of --all-users.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Allow a project's members to use an image. One that was open to all users is then restricted
    to them."""
    if everybody:  # until 0.3
        output.say("--everybody is deprecated and will be removed in 0.3. Use --all-users.")
        all_users = True
    if (project is None) is not all_users:
        raise typer.BadParameter("Name a project, or pass --all-users.")
    client = connect(url, data_dir)
    image = client.images.get(reference)
    if not yes and all_users and image.projects:
        output.confirm(f"Let all users see {image.reference}, not only {_seen_by(image)}?")
    if not yes and project is not None and not image.projects:
        output.confirm(f"All users see {image.reference}. Restrict it to the members of {project}?")
    projects = [] if project is None else sorted({*image.projects, project})
    return _answer(client.images.set_projects(image.reference, projects), as_json=as_json)


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
    remaining = [name for name in image.projects if name != project]
    if project not in image.projects:
        raise Conflict(
            f"{image.reference} is seen by {_seen_by(image)}: there is nothing to revoke."
        )
    if not remaining:
        raise Conflict(
            f"{image.reference} is seen only by {project}; without it, all users would see it. "
            f"Retire it (`aitne admin image retire {image.reference}`), grant it to another project "
            "first, or let all users see it: "
            f"`aitne admin image grant {image.reference} --all-users`."
        )
    if not yes:
        output.confirm(f"Withdraw {image.reference} from {project}?")
    return _answer(client.images.set_projects(image.reference, remaining), as_json=as_json)


def _answer(image: ImageRecord, *, as_json: bool) -> int:
    return output.done(as_json, image.raw, f"{image.reference}: seen by {_seen_by(image)}.")


def _seen_by(image: ImageRecord) -> str:
    return ", ".join(image.projects) or ALL_USERS


def _needs(image: ImageRecord) -> str:
    cuda = image.needs.get("cuda")
    return "" if cuda is None else f"CUDA {cuda}"


def _state(image: ImageRecord) -> str:
    return "damaged" if image.damage else image.state


apps = {"image": images}
