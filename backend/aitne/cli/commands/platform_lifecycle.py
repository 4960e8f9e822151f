"""``up``, ``down``, ``restart`` and ``status``: the platform on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from aitne.cli import output, server_package_check
from aitne.cli.command_registry import OPERATE, command
from aitne.cli.shared_options import DataDir, Json, Url
from aitne.core.errors import AitneError, SetupError


@command(
    "up",
    OPERATE,
    example="""
aitne up
aitne up --detach --port 8080
aitne up --data-dir ~/second --port 9000     another platform beside the first
""",
)
def up(
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65_532, help="The portal's port.")
    ] = None,
    data_dir: DataDir = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when the platform is ready.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="The scheduler adapter, such as local.")
    ] = None,
    bind: Annotated[str | None, typer.Option("--bind", help="The address to listen on.")] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Settings to use instead of DIR/aitne.toml."),
    ] = None,
    trusted_users: Annotated[
        bool,
        typer.Option(
            "--trusted-users",
            help="Permit more than one user, though all jobs run as your account on this machine.",
        ),
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="DIR",
            help="An unpacked `aitne admin bundle`: create missing environments without internet.",
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace the platform that --detach, or the unit that is reloaded, started here; its jobs continue.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Start a platform on this machine.

    A platform that runs already is not changed, unless --replace. Prints one address with a one-time login link.
    Without --detach it stays in the foreground until Ctrl-C. Never asks a question.
    """
    server_package_check.require_server()
    # The settings and the supervisor are heavier than everything else here.
    from aitne.local_system import systemd_notification
    from aitne.local_system.settings_loader import load_settings
    from aitne.supervisor import platform_control

    if config is not None:
        if not config.expanduser().is_file():
            raise SetupError(f"{config} is not a file. Name the settings to use with --config.")
        os.environ["AITNE_CONFIG"] = str(config.expanduser().absolute())
    settings = load_settings(
        None if data_dir is None else Path(data_dir),
        port=port,
        scheduler=scheduler,
        bind=bind,
        trusted_users=trusted_users or None,
    )

    def announce() -> None:
        _print_login_link(settings.data_dir, settings.portal_url, as_json=as_json)

    if replace and not detach and systemd_notification.find_reloaded_unit() is None:
        raise SetupError(
            "--replace needs --detach: a platform in the foreground ends with its terminal. Only "
            "ExecReload= of a unit of systemd has it alone."
        )
    platform_control.start_platform(
        settings,
        detach=detach,
        progress=output.print_message,
        on_ready=announce,
        bundle=bundle,
        replace=replace,
    )
    return 0


def _print_login_link(data_dir: Path, url: str, *, as_json: bool) -> None:
    from aitne.client import Client

    try:
        link = Client(data_dir=data_dir).tokens.login_link()
        address, expires = link.url, link.raw.get("expires_at")
    except AitneError as error:
        output.print_message(f"No login link could be created: {error.message}")
        address, expires = url, None
    if as_json:
        output.print_json({"url": url, "login_url": address, "expires_at": expires})
    else:
        output.print_line(address)
        output.print_message("The link logs you in once. `aitne down` stops the platform.")
    # In the foreground the process continues: a reader of the address must not wait for its end.
    sys.stdout.flush()


@command("down", OPERATE, example="aitne down\naitne down --keep-jobs")
def down(
    data_dir: DataDir = None,
    keep_jobs: Annotated[
        bool, typer.Option("--keep-jobs", help="Leave sessions and jobs running.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Stop the platform on this machine.

    Its sessions and jobs end too, unless --keep-jobs; on Slurm they always continue. Never asks a
    question. Without a running platform it does nothing.
    """
    from aitne.cli.views.platform_status import find_platform_dir
    from aitne.supervisor import platform_control

    folder = find_platform_dir(data_dir)
    stopped = platform_control.stop_platform(
        Path(folder), keep_jobs=keep_jobs, progress=output.print_message
    )
    if as_json:
        output.print_json({"stopped": stopped, "data_dir": folder})
    elif not stopped:
        output.print_message(f"No platform runs in {folder}.")
    return 0


@command("restart", OPERATE, example="aitne restart controller")
def restart(
    process: Annotated[
        str, typer.Argument(metavar="PROCESS", help="The process, as `aitne status` names it.")
    ],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> int:
    """Restart one process of the platform on this machine.

    Jobs, sessions and the other processes continue.
    """
    from aitne.cli.views.platform_status import find_platform_dir
    from aitne.supervisor import platform_control

    folder = find_platform_dir(data_dir)
    platform_control.restart_process(Path(folder), process)
    if as_json:
        output.print_json({"restarted": process, "data_dir": folder})
    else:
        output.print_message(
            f"{process} ends, and is started again. `aitne status` shows when it runs."
        )
    return 0


@command("status", OPERATE, example="aitne status\naitne status --json")
def status(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show the platform and its processes.

    Exit status: 0 if the platform is running, 1 if it is stopped.
    """
    from aitne.cli.views import platform_status

    return platform_status.status(as_json=as_json, url=url, data_dir=data_dir)
