"""Faults of a Slurm, and of the permissions of its keys."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.operations.doctor_site import Site

SLURM = Path(__file__).parents[2] / "assets" / "slurm" / "24.11" / "cli" / "config.txt"


def keys_of_slurm(site: Site) -> Path:
    """A Slurm with its keys in a folder of their own, which only their accounts can read."""
    folder = site.root / "etc-slurm"
    folder.mkdir(mode=0o755)
    for name in ("jwt.key", "slurmdbd.conf"):
        (folder / name).write_text("secret")
        (folder / name).chmod(0o600)
    changed = {
        "AuthType": "auth/slurm",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={folder}/jwt.key",
        "CredType": "cred/slurm",
        "SLURM_CONF": f"{folder}/slurm.conf",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
    }
    (folder / "slurm.key").write_text("secret")
    (folder / "slurm.key").chmod(0o600)
    kept = [
        line
        for line in SLURM.read_text().splitlines()
        if line.partition("=")[0].strip() not in changed
    ]
    site.slurm("\n".join([*kept, *(f"{name:23} = {value}" for name, value in changed.items())]))
    return folder


def key_of_slurm_is_readable(site: Site) -> None:
    (keys_of_slurm(site) / "jwt.key").chmod(0o644)


def password_of_accounting_is_readable(site: Site) -> None:
    (keys_of_slurm(site) / "slurmdbd.conf").chmod(0o644)


def keys_of_slurm_can_be_replaced(site: Site) -> None:
    keys_of_slurm(site).chmod(0o777)


def slurm_is_old(site: Site) -> None:
    site.slurm(SLURM.read_text().replace("24.11.5", "20.02.1"))


def clock_of_slurmctld_is_wrong(site: Site) -> None:
    _, _, rest = SLURM.read_text().partition("\n")
    site.slurm(f"Configuration data as of {int(time.time()) + 400}\n{rest}")
