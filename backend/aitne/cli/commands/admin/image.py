"""``admin image``: build, import, share, verify, retire and remove images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.image_registration import (
    format_audience,
    list_missing_runtimes,
    load_platform_settings,
    make_administrator_client,
    register_image,
)
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, ImageArgument, Json, ProjectArgument, Url, Yes

if TYPE_CHECKING:
    from aitne.adapters.images.image_builder import BuildPlan, BuildResult
    from aitne.client.images import ImageRecord
    from aitne.core.settings import Settings


@group("admin image")
def images() -> None:
    """Build, import, share, verify and remove images."""


Version = Annotated[str, typer.Argument(metavar="NAME:VERSION", help="A version from `image ls`.")]
Projects = Annotated[
    list[str] | None,
    typer.Option("--project", help="Project that may use it; may be repeated; unset: all users."),
]


@images.command(
    "grant",
    epilog=examples(
        "aitne admin image grant jupyter:1.0 vision\n"
        "aitne admin image grant jupyter:1.0 --all-users --yes"
    ),
)
def image_grant(
    reference: ImageArgument,
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
        output.print_message(
            "--everybody is deprecated and will be removed in 0.3. Use --all-users."
        )
        all_users = True
    if (project is None) is not all_users:
        raise typer.BadParameter("Name a project, or pass --all-users.")
    client = make_client(url, data_dir)
    image = client.images.get(reference)
    if not yes and all_users and image.projects:
        output.require_confirmation(
            f"Let all users see {image.reference}, not only {format_audience(image)}?"
        )
    if not yes and project is not None and not image.projects:
        output.require_confirmation(
            f"All users see {image.reference}. Restrict it to the members of {project}?"
        )
    projects = [] if project is None else sorted({*image.projects, project})
    return _print_access(client.images.set_projects(image.reference, projects), as_json=as_json)


@images.command("revoke", epilog=examples("aitne admin image revoke jupyter:1.0 vision"))
def image_revoke(
    reference: ImageArgument,
    project: ProjectArgument,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Withdraw a project's permission to use an image. Running jobs continue."""
    from aitne.core.errors import Conflict

    client = make_client(url, data_dir)
    image = client.images.get(reference)
    remaining = [name for name in image.projects if name != project]
    if project not in image.projects:
        raise Conflict(
            f"{image.reference} is seen by {format_audience(image)}: there is nothing to revoke."
        )
    if not remaining:
        raise Conflict(
            f"{image.reference} is seen only by {project}; without it, all users would see it. "
            f"Retire it (`aitne admin image retire {image.reference}`), grant it to another project "
            "first, or let all users see it: "
            f"`aitne admin image grant {image.reference} --all-users`."
        )
    if not yes:
        output.require_confirmation(f"Withdraw {image.reference} from {project}?")
    return _print_access(client.images.set_projects(image.reference, remaining), as_json=as_json)


@images.command(
    "build",
    epilog=examples(
        """
sudo aitne admin image build base --yes
sudo aitne admin image build ./my-image        a folder with an image.yaml
"""
    ),
)
def image_build(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An image of Aitne, or the path of a folder.")
    ],
    with_docker: Annotated[
        bool, typer.Option("--docker", help="For Docker too, even if no job can use it yet.")
    ] = False,
    projects: Projects = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Build an image from Debian's and PyPI's packages, as root, and offer it.

    Apptainer is installed if it is missing. Layers are kept, so that a small change is built
    quickly.
    """
    from aitne.adapters.images import image_builder, recipes
    from aitne.cli.signal_cleanup import exit_on_signals

    recipe = recipes.read_recipe(recipes.find_recipe_folder(name))
    image_builder.require_root()
    client = make_administrator_client(url, data_dir)
    settings = load_platform_settings(client)
    runtimes = image_builder.select_runtimes(settings, docker=with_docker)
    missing = list_missing_runtimes(client, recipe.file.name, recipe.file.version, runtimes)
    if not missing:
        output.print_message(
            f"{recipe.reference} is in the catalogue: nothing was built. After a change of its "
            "image.yaml, give it a new version there."
        )
        return _print_image(client.images.get(recipe.reference), as_json=as_json)
    plan = image_builder.make_build_plan(recipe, missing)
    if not yes or not as_json:
        _print_plan(plan, settings)
    if not yes:
        output.require_confirmation(f"Build {recipe.reference}?")
    with exit_on_signals():
        made = image_builder.build_image(plan, settings, output.print_message)
    image = register_image(client, recipe.document, made, projects or [])
    return _print_image(image, as_json=as_json, made=made)


@images.command(
    "import",
    epilog=examples(
        """
aitne admin image import torch ./torch.sif --version 2.9 --cuda 12.6
aitne admin image import tools tools.tar --version 3 --digest sha256:…   by `docker save`
"""
    ),
)
def image_import(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the image.")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR", help="A .sif, an archive of `docker save`, or a root file system."
        ),
    ],
    version: Annotated[
        str, typer.Option("--version", metavar="V", help="The version; must be new.")
    ],
    digest: Annotated[
        str | None, typer.Option("--digest", help="The expected sha256:… of the file.")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="Description.")] = "",
    cuda: Annotated[
        str | None, typer.Option("--cuda", metavar="X.Y", help="CUDA version it was built with.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option("--python", help="An interpreter in it with JupyterLab, for sessions."),
    ] = None,
    projects: Projects = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Import an image that was built elsewhere, and offer it."""
    from aitne.adapters.images import image_importer
    from aitne.cli.image_maintenance import check_import, list_imported_apps
    from aitne.cli.signal_cleanup import exit_on_signals

    check_import(name, version, digest, cuda)
    apps = list_imported_apps(python)
    candidate = image_importer.inspect_source(source)
    client = make_administrator_client(url, data_dir)
    settings = load_platform_settings(client)
    if not list_missing_runtimes(client, name, version, ["apptainer"]):
        from aitne.core.errors import Conflict

        raise Conflict(f"{name}:{version} is in the catalogue already. Choose another version.")
    if not yes or not as_json:
        output.print_facts(
            [
                ("Image", f"{name}:{version}"),
                (
                    "From",
                    f"{candidate.path} ({candidate.kind}, {output.format_memory(candidate.size_bytes)})",
                ),
                ("Goes to", settings.images_dir),
                ("Needs", f"CUDA {cuda}" if cuda else ""),
                ("Seen by", ", ".join(projects or []) or "all users"),
            ]
        )
    if not yes:
        output.require_confirmation(f"Import {name}:{version}?")
    with exit_on_signals():
        made = image_importer.import_image(
            candidate, name, version, settings, output.print_message, digest=digest, apps=apps
        )
    image: dict[str, object] = {
        "name": name,
        "version": version,
        "description": description,
        "apps": {key: app.model_dump() for key, app in apps.items()},
        "needs": {"cuda": cuda},
        "env": {},
    }
    return _print_image(
        register_image(client, image, made, projects or []), as_json=as_json, made=made
    )


@images.command("retire", epilog=examples("aitne admin image retire base:1.0.0 --yes"))
def image_retire(
    reference: Version,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Retire a version, so that new jobs cannot use it. Running jobs keep it."""
    client = make_administrator_client(url, data_dir)
    _check_version_named(reference)
    if not yes:
        output.require_confirmation(f"Retire {reference}?")
    image = client.images.retire(reference)
    return output.print_done(
        as_json,
        image.raw,
        f"{reference} is retired. `aitne admin image gc` removes it when no job uses it.",
    )


@images.command(
    "verify",
    epilog=examples("aitne admin image verify\naitne admin image verify base:1.0.0 --json"),
)
def image_verify(
    reference: Annotated[
        str | None,
        typer.Argument(metavar="[NAME[:VERSION]]", help="One image; unset: all."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Read images completely and compare them with their digests.

    A damaged image is not offered until a verification finds it intact. The exit status is 1 if one
    is damaged.
    """
    from aitne.adapters.images.docker_daemon import DockerDaemon
    from aitne.cli.image_maintenance import find_damage, list_matching_images

    client = make_administrator_client(url, data_dir)
    settings = load_platform_settings(client)
    chosen = list_matching_images(client.images.list(), reference)
    daemon = DockerDaemon(settings.containers.docker_url, settings.containers.tmp_dir)
    results = []
    for image in chosen:
        output.print_message(f"Reading {image.reference} …")
        results.append(client.images.note_verification(image.reference, find_damage(image, daemon)))
    damaged = [image for image in results if image.damage]
    if as_json:
        output.print_json([image.raw for image in results])
    else:
        output.print_table(
            ("IMAGE", "RESULT"),
            [(image.reference, image.damage or "intact") for image in results],
        )
    return int(bool(damaged))


@images.command("gc", epilog=examples("sudo aitne admin image gc"))
def image_gc(
    yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Remove retired images that no job uses, and files that belong to no image.

    Image layers that no build has used for 30 days are removed too.
    """
    from aitne.cli import image_maintenance

    client = make_administrator_client(url, data_dir)
    settings = load_platform_settings(client)
    rubbish = image_maintenance.find_garbage(client.images.list(), settings)
    if not rubbish.lines():
        output.print_message("There is nothing to remove.")
    else:
        if not yes or not as_json:
            output.print_table(("WHAT", "SIZE"), rubbish.lines())
        if not yes:
            output.require_confirmation(f"Remove up to {output.format_memory(rubbish.size_bytes)}?")
    result = image_maintenance.remove_garbage(rubbish, client, settings)
    if as_json:
        output.print_json(result)
    elif rubbish.lines():
        output.print_message(f"{output.format_memory(result['freed_bytes'])} are free again.")
    return 0


def _print_plan(plan: BuildPlan, settings: Settings) -> None:
    recipe = plan.recipe
    packages = f"{len(recipe.debian)} of Debian"
    if recipe.python:
        packages += f", {len(recipe.python)} of PyPI, with their dependencies"
    note = "; its layers are cached" if not plan.missing_layers else ""
    output.print_facts(
        [
            ("Image", recipe.reference),
            ("About", recipe.file.description),
            ("Extends", ", ".join(recipe.bases)),
            ("For", ", ".join(plan.runtimes)),
            ("Packages", packages),
            ("Debian", " ".join(recipe.debian)),
            ("PyPI", " ".join(recipe.python)),
            ("Made here", " ".join(recipe.wheels)),
            ("Size", f"about {output.format_memory(plan.expected_bytes)}{note}"),
            ("Goes to", settings.images_dir),
        ]
    )


def _print_image(image: ImageRecord, *, as_json: bool, made: BuildResult | None = None) -> int:
    if as_json:
        output.print_json(image.raw)
        return 0
    bill = image.packages
    output.print_facts(
        [
            ("Image", f"{image.reference}, offered to {', '.join(image.projects) or 'all users'}"),
            *(
                (a.runtime, f"{a.digest}, {output.format_memory(a.size_bytes)}")
                for a in image.artifacts
            ),
            *(("File", a.path) for a in image.artifacts if a.path),
            (
                "Bill",
                f"{sum(p.source == 'debian' for p in bill)} packages of Debian, "
                f"{sum(p.source == 'python' for p in bill)} of Python",
            ),
            ("Log", f"{made.log} ({output.format_duration(made.seconds)})" if made else ""),
        ]
    )
    return 0


def _print_access(image: ImageRecord, *, as_json: bool) -> int:
    return output.print_done(
        as_json, image.raw, f"{image.reference}: seen by {format_audience(image)}."
    )


def _check_version_named(reference: str) -> None:
    if ":" not in reference:
        from aitne.core.errors import InvalidInput

        raise InvalidInput.field(
            "NAME:VERSION", "name the version", value=reference, allowed="NAME:VERSION"
        )
