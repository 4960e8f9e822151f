"""``image``: images that jobs run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.image_registration import format_audience
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, ImageArgument, Json, Url

if TYPE_CHECKING:
    from aitne.client.images import ImageRecord


@group("image", LOOK)
def images() -> None:
    """List and show container images."""


@images.command("ls", epilog=examples("aitne image ls"))
def image_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the images that your jobs may use. Administrators see all."""
    catalogue = make_client(url, data_dir).images.list()
    return output.print_list(
        as_json,
        catalogue,
        ("NAME", "VERSION", "RUNTIMES", "SIZE", "APPS", "NEEDS", "SEEN BY", "STATE"),
        lambda image: (
            image.name,
            image.version,
            " ".join(artifact.runtime for artifact in image.artifacts),
            output.format_memory(max((a.size_bytes for a in image.artifacts), default=None)),
            " ".join(sorted(image.apps)),
            _describe_needs(image),
            format_audience(image),
            _get_state(image),
        ),
    )


@images.command(
    "show", epilog=examples("aitne image show jupyter\naitne image show jupyter:1.0 --packages")
)
def image_show(
    reference: ImageArgument,
    packages: Annotated[
        bool, typer.Option("--packages", help="Show the software bill too: every package in it.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show one image: its files, apps, requirements and number of packages.

    With --packages, also list the packages of its software bill of materials (SBOM).
    """
    image = make_client(url, data_dir).images.get(reference)
    if as_json:
        output.print_json(image.raw)
        return 0
    bill = f"{len(image.packages)}" + ("" if packages else ", shown with --packages")
    output.print_facts(
        [
            ("Image", image.reference),
            ("About", image.description),
            ("Apps", ", ".join(sorted(image.apps))),
            ("Needs", _describe_needs(image)),
            ("Variables", ", ".join(sorted(image.env))),
            ("Seen by", format_audience(image)),
            ("State", _get_state(image)),
            ("Damage", image.damage),
            ("Added", f"{output.format_time(image.created_at)} by {image.created_by}"),
            ("Verified", output.format_time(image.verified_at)),
            ("Packages", bill if image.packages else None),
        ]
    )
    output.print_line("")
    output.print_table(
        ("RUNTIME", "SIZE", "DIGEST", "PATH"),
        [
            (a.runtime, output.format_memory(a.size_bytes), a.digest, a.path or "")
            for a in image.artifacts
        ],
    )
    if packages:
        output.print_line("")
        output.print_table(
            ("PACKAGE", "VERSION", "SOURCE"),
            [(package.name, package.version, package.source) for package in image.packages],
        )
    return 0


def _describe_needs(image: ImageRecord) -> str:
    cuda = image.needs.get("cuda")
    return "" if cuda is None else f"CUDA {cuda}"


def _get_state(image: ImageRecord) -> str:
    return "damaged" if image.damage else image.state
