"""systemd units for regular backups."""

from __future__ import annotations

from pathlib import Path

SERVICE, TIMER = "aitne-backup.service", "aitne-backup.timer"

_SERVICE = """\
[Unit]
Description=Backup of the Aitne platform
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
{user}Environment=AITNE_DATA_DIR={data_dir}{config}
ExecStart={program} admin backup --yes
Nice=10
IOSchedulingClass=idle
NoNewPrivileges=yes
PrivateTmp=yes
UMask=0077
"""
_TIMER = """\
[Unit]
Description=Daily backup of the Aitne platform

[Timer]
OnCalendar=*-*-* 02:00:00
RandomizedDelaySec=30min
Persistent=yes

[Install]
WantedBy=timers.target
"""


def make_backup_units(
    *, program: Path, data_dir: Path, user: str | None, config: Path | None = None
) -> dict[str, str]:
    """Return the units of a daily backup to the place that `[backup]` in the settings names, each
    text by file name.

    ``program`` is the path of ``aitne``; ``user`` is the platform's account, None for root;
    ``config`` is a settings file outside the data directory.
    """
    service = _SERVICE.format(
        program=program,
        data_dir=data_dir,
        user="" if user is None else f"User={user}\n",
        config="" if config is None else f" AITNE_CONFIG={config}",
    )
    return {SERVICE: service, TIMER: _TIMER}
