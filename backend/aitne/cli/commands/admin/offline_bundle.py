"""``admin bundle``: the platform's packages for a host without internet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aitne.cli import output, server_package_check
from aitne.cli.command_registry import command
from aitne.cli.shared_options import Json


@command(
    "admin bundle",
    example="""
aitne admin bundle --output /media/usb/aitne-bundle.tar
aitne admin bundle --output aitne-bundle.tar --wheel aitne-0.2.0-py3-none-any.whl
""",
)
def bundle(
    to: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The new tar file.")],
    wheel: Annotated[
        Path | None,
        typer.Option("--wheel", metavar="FILE", help="The wheel of this release.", dir_okay=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Pack this release with all its packages into one file, for a host without internet.

    It contains the platform with the portal, JupyterHub, JupyterLab and the proxy, for this Python
    and this kind of processor.
    """
    server_package_check.require_server()
    from aitne.operations.upgrade.bundle_creation import create_bundle

    path = to.expanduser().absolute()
    size = create_bundle(path, wheel=wheel, progress=output.print_message)
    if as_json:
        output.print_json({"path": str(path), "bytes": size})
        return 0
    output.print_line(str(path))
    output.print_message(f"{output.format_memory(size)}. Unpack it on the host with `tar -xf`.")
    return 0
