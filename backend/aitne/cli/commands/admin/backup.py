"""``admin backup``, ``admin verify`` and ``admin restore``: backups of the platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output, server_package_check
from aitne.cli.command_registry import command, examples, group
from aitne.cli.shared_options import DataDir, Json, Yes

if TYPE_CHECKING:
    from aitne.operations.backup.archive import Manifest
    from aitne.operations.backup.creation import CreatedBackup
    from aitne.operations.backup.restoration import RestoredPlatform

_NICE = 10

BackupFile = Annotated[
    Path, typer.Argument(metavar="PATH", help="A file that `aitne admin backup` made.")
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help="The private key, if the backup is encrypted.", dir_okay=False
    ),
]


@group(
    "admin backup",
    alone=True,
    example="""
aitne admin backup --to /srv/backups --yes
aitne admin backup key ~/aitne-backup-key                        a key pair for encryption
aitne admin backup --to s3://bucket/aitne --recipient key.pub --yes --json
""",
)
def backup(
    context: typer.Context,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="DIR|s3:…", help="A folder, or s3://BUCKET/PREFIX; unset: backup.to."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", min=1, help="Backups to keep in the folder; unset: backup.keep."
        ),
    ] = None,
    recipient: Annotated[
        Path | None,
        typer.Option(
            "--recipient",
            metavar="FILE",
            help="The public key to encrypt to; unset: backup.recipient.",
        ),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Back up the platform into one file, while it runs and jobs run.

    It contains the databases of the platform and of JupyterHub, secrets, certificates, settings,
    templates and dataset manifests; neither job folders nor images. Without a public key it is not
    encrypted.
    """
    if context.invoked_subcommand is not None:
        return 0
    server_package_check.require_server()
    import os

    os.nice(_NICE)  # before the imports, which need most of the CPU time
    from aitne.cli.signal_cleanup import exit_on_signals
    from aitne.core.errors import InvalidInput
    from aitne.local_system.platform_folders import default_data_dir
    from aitne.local_system.settings_loader import load_settings
    from aitne.operations.backup.creation import create_backup
    from aitne.operations.data_dir_owner import become_owner

    folder = Path(data_dir or os.environ.get("AITNE_DATA_DIR") or default_data_dir()).expanduser()
    become_owner(folder)
    settings = load_settings(folder)
    to = to or settings.backup.to
    if to is None:
        raise InvalidInput("Name a folder for the backup with --to, or set `to` under [backup].")
    recipient = recipient or settings.backup.recipient
    if not yes:
        if recipient is None:
            output.print_message(
                "The backup is not encrypted and contains all secrets of the platform: "
                "`aitne admin backup key` creates a key pair, --recipient names the public key."
            )
        output.require_confirmation(f"Back up the platform in {settings.data_dir} to {to}?")
    with exit_on_signals():
        made = create_backup(
            settings, to=to, keep=keep or settings.backup.keep, recipient=recipient
        )
    return _print_created(made, as_json=as_json)


def _print_created(made: CreatedBackup, *, as_json: bool) -> int:
    for name in made.left_out:
        output.print_message(f"Not in the backup: {name}.")
    if as_json:
        output.print_json(
            {
                "path": made.path,
                "created_at": made.created_at.isoformat(),
                "bytes": made.bytes,
                "encrypted": made.encrypted,
                "left_out": list(made.left_out),
                "pruned": list(made.pruned),
            }
        )
        return 0
    output.print_line(made.path)
    encrypted = "encrypted" if made.encrypted else "not encrypted: keep it as safe as the platform"
    output.print_message(f"{output.format_memory(made.bytes)}, {encrypted}.")
    if made.pruned:
        output.print_message(f"Deleted older backups: {', '.join(made.pruned)}.")
    return 0


@backup.command(
    "key",
    epilog=examples("aitne admin backup key /root/aitne-backup-key"),
)
def backup_key(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="New file for the private key.", dir_okay=False)
    ],
    as_json: Json = False,
) -> int:
    """Create a key pair: backups are encrypted to the public key, FILE.pub.

    The private key is needed only to restore. Keep it away from the platform's machine, twice:
    without it the backups are worthless.
    """
    server_package_check.require_server()
    from aitne.operations.backup.backup_encryption import create_key_pair

    private = path.expanduser().absolute()
    public = create_key_pair(private)
    if as_json:
        output.print_json({"key": str(private), "recipient": str(public)})
        return 0
    output.print_line(str(public))
    output.print_message(
        f"The private key is {private}: move it to a safe place and keep a second copy."
    )
    return 0


@command(
    "admin verify",
    example="""
aitne admin verify /srv/backups/aitne-local-20260301T020000Z.tar
aitne admin verify backup.tar --key aitne-backup-key        decrypts it, too
""",
)
def verify(path: BackupFile, key: Key = None, as_json: Json = False) -> int:
    """Check that a backup is complete and unchanged, and that this release can restore it."""
    server_package_check.require_server()
    from aitne.operations.backup.verification import verify_backup

    manifest = verify_backup(path, key)
    if as_json:
        output.print_json({"path": str(path), "valid": True, **_to_json_object(manifest)})
        return 0
    output.print_facts(
        [
            ("Created", output.format_time(manifest.created_at)),
            ("Release", manifest.release),
            ("Cluster", manifest.cluster),
            ("Host", manifest.host),
            ("Data directory", manifest.data_dir),
            ("Database", manifest.database),
            ("Encrypted", "no" if manifest.recipient is None else f"to {manifest.recipient[:16]}…"),
            ("Files", len(manifest.members)),
        ]
    )
    output.print_message("The backup is complete and unchanged.")
    return 0


def _to_json_object(manifest: Manifest) -> dict[str, object]:
    return manifest.model_dump(mode="json", exclude={"members", "machine", "ephemeral", "format"})


@command(
    "admin restore",
    example="""
aitne admin restore aitne-local-20260301T020000Z.tar --data-dir /var/lib/aitne --yes
aitne admin restore backup.tar --data-dir /var/lib/aitne --key aitne-backup-key
""",
)
def restore(
    path: BackupFile,
    data_dir: Annotated[
        Path,
        typer.Option("--data-dir", metavar="DIR", help="An empty folder, or a new one."),
    ],
    key: Key = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Move a platform that is there aside, also its tables."),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Restore a backup. The platform must not run; `aitne up` starts it afterwards.

    What was accepted after the backup is lost. Jobs that Slurm still knows, or whose folder still
    exists, are found again and not submitted twice.
    """
    server_package_check.require_server()
    from aitne.cli.signal_cleanup import exit_on_signals
    from aitne.operations.backup.archive import Archive
    from aitne.operations.backup.restoration import check_restorable, restore_backup

    folder = data_dir.expanduser().absolute()
    with exit_on_signals(), Archive(path) as archive:
        if not yes:
            check_restorable(archive, folder, replace=replace)
            made = archive.manifest
            output.require_confirmation(
                f"Restore the backup of {output.format_time(made.created_at)} (cluster {made.cluster}, "
                f"host {made.host}) into {folder}?"
            )
        restored = restore_backup(archive, folder, key=key, replace=replace)
    return _print_restored(restored, as_json=as_json)


def _print_restored(restored: RestoredPlatform, *, as_json: bool) -> int:
    if as_json:
        output.print_json(
            {
                "data_dir": str(restored.data_dir),
                "moved_aside": restored.moved_aside,
                "linked": [str(path) for path in restored.linked],
                "elsewhere": [str(path) for path in restored.elsewhere],
                "backup": _to_json_object(restored.manifest),
            }
        )
        return 0
    output.print_line(str(restored.data_dir))
    if restored.moved_aside is not None:
        output.print_message(f"What was there before is in {restored.moved_aside}.")
    for path in restored.linked:
        output.print_message(f"{path} is used through a link, because jobs may run there: keep it.")
    for path in restored.elsewhere:
        place = Path("/", *path.relative_to(restored.data_dir).parts[1:])
        output.print_message(f"Compare {path} with {place}, and copy it there if needed.")
    output.print_message(
        "Make sure that the earlier platform does not run any more, then start this one: "
        f"`aitne up --data-dir {restored.data_dir}`."
    )
    return 0
