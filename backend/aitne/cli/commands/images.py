"""``admin image``: build, import, verify, retire and remove images."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.commands.image import admin_images
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.adapters.images.build import BuildPlan, BuildResult
    from aitne.client import Client
    from aitne.client.images import ImageRecord
    from aitne.core.settings import Settings

images = admin_images
"""Extends the group of ``grant`` and ``revoke``."""

Version = Annotated[str, typer.Argument(metavar="NAME:VERSION", help="A version from `image ls`.")]
Projects = Annotated[
    list[str] | None,
    typer.Option("--project", help="Project that may use it; may be repeated; unset: all users."),
]


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
    from aitne.adapters.images import build, folder
    from aitne.cli.ending import tidily

    recipe = folder.read(folder.find(name))
    build.require_root()
    client = _administrator(url, data_dir)
    settings = _settings(client)
    runtimes = build.runtimes_for(settings, docker=with_docker)
    missing = _not_there_yet(client, recipe.file.name, recipe.file.version, runtimes)
    if not missing:
        output.say(
            f"{recipe.reference} is in the catalogue: nothing was built. After a change of its "
            "image.yaml, give it a new version there."
        )
        return _answer(client.images.get(recipe.reference), as_json=as_json)
    plan = build.plan(recipe, missing)
    if not yes or not as_json:
        _show_plan(plan, settings)
    if not yes:
        output.confirm(f"Build {recipe.reference}?")
    with tidily():
        made = build.build(plan, settings, output.say)
    image = _register(client, recipe.document, made, projects or [])
    return _answer(image, as_json=as_json, made=made)


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
    from aitne.adapters.images import imports
    from aitne.cli.ending import tidily
    from aitne.cli.images import apps_with, check_import

    check_import(name, version, digest, cuda)
    apps = apps_with(python)
    candidate = imports.look(source)
    client = _administrator(url, data_dir)
    settings = _settings(client)
    if not _not_there_yet(client, name, version, ["apptainer"]):
        from aitne.core.errors import Conflict

        raise Conflict(f"{name}:{version} is in the catalogue already. Choose another version.")
    if not yes or not as_json:
        output.facts(
            [
                ("Image", f"{name}:{version}"),
                (
                    "From",
                    f"{candidate.path} ({candidate.kind}, {output.memory(candidate.size_bytes)})",
                ),
                ("Goes to", settings.images_dir),
                ("Needs", f"CUDA {cuda}" if cuda else ""),
                ("Seen by", ", ".join(projects or []) or "all users"),
            ]
        )
    if not yes:
        output.confirm(f"Import {name}:{version}?")
    with tidily():
        made = imports.take(
            candidate, name, version, settings, output.say, digest=digest, apps=apps
        )
    image: dict[str, object] = {
        "name": name,
        "version": version,
        "description": description,
        "apps": {key: app.model_dump() for key, app in apps.items()},
        "needs": {"cuda": cuda},
        "env": {},
    }
    return _answer(_register(client, image, made, projects or []), as_json=as_json, made=made)


@images.command("retire", epilog=examples("aitne admin image retire base:1.0.0 --yes"))
def image_retire(
    reference: Version,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Retire a version, so that new jobs cannot use it. Running jobs keep it."""
    client = _administrator(url, data_dir)
    _with_version(reference)
    if not yes:
        output.confirm(f"Retire {reference}?")
    image = client.images.retire(reference)
    return output.done(
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
    from aitne.adapters.images.daemon import DockerDaemon
    from aitne.cli.images import damage, matching

    client = _administrator(url, data_dir)
    settings = _settings(client)
    chosen = matching(client.images.list(), reference)
    daemon = DockerDaemon(settings.containers.docker_url, settings.containers.tmp_dir)
    results = []
    for image in chosen:
        output.say(f"Reading {image.reference} …")
        results.append(client.images.note_verification(image.reference, damage(image, daemon)))
    damaged = [image for image in results if image.damage]
    if as_json:
        output.answer_json([image.raw for image in results])
    else:
        output.table(
            ("IMAGE", "RESULT"),
            [(image.reference, image.damage or "intact") for image in results],
        )
    return int(bool(damaged))


@images.command("gc", epilog=examples("sudo aitne admin image gc"))
def image_gc(
    yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Remove retired images that no job uses, and files that belong to no image.

    Layers that no build has used for 30 days are removed too.
    """
    from aitne.cli import images as collecting

    client = _administrator(url, data_dir)
    settings = _settings(client)
    rubbish = collecting.find(client.images.list(), settings)
    if not rubbish.lines():
        output.say("There is nothing to remove.")
    else:
        if not yes or not as_json:
            output.table(("WHAT", "SIZE"), rubbish.lines())
        if not yes:
            output.confirm(f"Remove up to {output.memory(rubbish.size_bytes)}?")
    result = collecting.remove(rubbish, client, settings)
    if as_json:
        output.answer_json(result)
    elif rubbish.lines():
        output.say(f"{output.memory(result['freed_bytes'])} are free again.")
    return 0


def _administrator(url: str | None, data_dir: str | None) -> Client:
    """Return a client of the platform, after checking that it answers and that the user is an
    administrator."""
    client = connect(url, data_dir)
    if client.me().user.role != "admin":
        from aitne.core.errors import NotAllowed

        raise NotAllowed("Only administrators of the platform manage images.")
    return client


def _settings(client: Client) -> Settings:
    """Return the settings of the platform. Raise ``SetupError`` for a platform that is known only
    by its address: it may be on another machine, or keep its images elsewhere, so that images here
    would be mistaken for its own and marked as damaged or removed."""
    from aitne.client.discovery import ask_supervisor
    from aitne.core.errors import SetupError
    from aitne.host.settings import load_settings

    data_dir = client.platform.data_dir
    if data_dir is None:
        raise SetupError(
            f"{client.platform.url} was selected by its address ({client.platform.source}), which "
            "does not tell the folder of its images. Run this on the platform's own machine and "
            "name its data directory with --data-dir."
        )
    # Options and variables of `aitne up` are not stored in a file.
    platform_settings = (ask_supervisor(data_dir, "settings") or {}).get("settings", {})
    # Root may use another user's platform, which must not decide what root runs.
    os.environ.update(
        {name: value for name, value in platform_settings.items() if name.startswith("AITNE_")}
    )
    return load_settings(Path(data_dir))


def _not_there_yet(client: Client, name: str, version: str, runtimes: Sequence[str]) -> list[str]:
    """Return the runtimes for which the catalogue does not have this version."""
    for image in client.images.list():
        if (image.name, image.version) == (name, version):
            if not image.offered:
                from aitne.core.errors import Conflict

                state = "damaged" if image.damage else "retired"
                raise Conflict(
                    f"{image.reference} is in the catalogue and {state}. Choose another version; or "
                    f"`aitne admin image retire` and `gc` remove it."
                )
            there = {artifact.runtime for artifact in image.artifacts}
            return [runtime for runtime in runtimes if runtime not in there]
    return [*runtimes]


def _show_plan(plan: BuildPlan, settings: Settings) -> None:
    recipe = plan.recipe
    packages = f"{len(recipe.debian)} of Debian"
    if recipe.python:
        packages += f", {len(recipe.python)} of PyPI, with their dependencies"
    note = "; its layers are cached" if not plan.missing_layers else ""
    output.facts(
        [
            ("Image", recipe.reference),
            ("About", recipe.file.description),
            ("Extends", ", ".join(recipe.bases)),
            ("For", ", ".join(plan.runtimes)),
            ("Packages", packages),
            ("Debian", " ".join(recipe.debian)),
            ("PyPI", " ".join(recipe.python)),
            ("Made here", " ".join(recipe.wheels)),
            ("Size", f"about {output.memory(plan.expected_bytes)}{note}"),
            ("Goes to", settings.images_dir),
        ]
    )


def _register(
    client: Client, image: dict[str, object], made: BuildResult, projects: Sequence[str]
) -> ImageRecord:
    """Register a new image and return it; if the platform rejects it, its files are removed
    again."""
    from aitne.adapters.images.store import remove
    from aitne.core.errors import AitneError, Unavailable

    artifacts = [
        artifact.model_dump(include={"runtime", "digest"})
        | ({"path": artifact.path} if artifact.path else {"size_bytes": artifact.size_bytes})
        for artifact in made.artifacts
    ]
    packages = [package.model_dump() for package in made.packages]
    output.say("Registering it with the platform")
    try:
        return client.images.register(image, artifacts, packages=packages, projects=projects)
    except AitneError as error:
        # Without an answer it is unknown whether the image was registered; gc checks it later.
        if not isinstance(error, Unavailable):
            # Another process may have registered the same image at the same time.
            with suppress(AitneError):
                known_paths = {
                    item.path for entry in client.images.list() for item in entry.artifacts
                }
                for artifact in made.artifacts:
                    if artifact.path is not None and artifact.path not in known_paths:
                        remove(Path(artifact.path))
        raise


def _answer(image: ImageRecord, *, as_json: bool, made: BuildResult | None = None) -> int:
    if as_json:
        output.answer_json(image.raw)
        return 0
    bill = image.packages
    output.facts(
        [
            ("Image", f"{image.reference}, offered to {', '.join(image.projects) or 'all users'}"),
            *((a.runtime, f"{a.digest}, {output.memory(a.size_bytes)}") for a in image.artifacts),
            *(("File", a.path) for a in image.artifacts if a.path),
            (
                "Bill",
                f"{sum(p.source == 'debian' for p in bill)} packages of Debian, "
                f"{sum(p.source == 'python' for p in bill)} of Python",
            ),
            ("Log", f"{made.log} ({output.duration(made.seconds)})" if made else ""),
        ]
    )
    return 0


def _with_version(reference: str) -> None:
    if ":" not in reference:
        from aitne.core.errors import InvalidInput

        raise InvalidInput.field(
            "NAME:VERSION", "name the version", value=reference, allowed="NAME:VERSION"
        )
