"""Broker of the cluster, through which an unprivileged platform submits jobs as the users alice and
bob.
"""

from __future__ import annotations

import json
import os
import sys

from aitne_devcluster.plan import DevClusterPlan
from aitne_devcluster.users import OPERATOR

ADAPTER = "slurm"


def make_broker_argv(plan: DevClusterPlan) -> tuple[str, ...]:
    """Return the broker's command line. The broker runs in this machine's root file system, even if
    the daemons run in another one.
    """
    return (sys.executable, "-m", "aitne.broker", "--config", str(plan.root / "broker.toml"))


def write_settings(plan: DevClusterPlan, python: str) -> None:
    """Write ``broker.toml``, which belongs to root, as the broker requires. Raises ``OSError``."""
    path = plan.root / "broker.toml"
    path.write_text(format_settings(plan, python, {0, get_sudo_caller_ids()[0]}), encoding="utf-8")
    path.chmod(0o644)


def get_sudo_caller_ids() -> tuple[int, int]:
    """Return the uid and gid of the user that called sudo, or of root if sudo was not used."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    return (int(uid), int(gid)) if uid.isdigit() and gid.isdigit() else (0, 0)


def format_settings(plan: DevClusterPlan, python: str, peers: set[int]) -> str:
    """Return the broker's settings as TOML. Strings and lists are written with ``json.dumps``,
    since for these values both formats are the same.
    """
    lines = [
        f"socket = {json.dumps(str(plan.broker_socket))}",
        f"peers = {json.dumps(sorted(peers))}",
        f"audit = {json.dumps(str(plan.log / 'broker.jsonl'))}",
        f"scheduler = {json.dumps(ADAPTER)}",
        "",
        "[slurm]",
        f"conf = {json.dumps(str(plan.slurm_conf))}",
        f"command_prefix = {json.dumps(plan.prefix)}",
        f"rest_url = {json.dumps(plan.rest_url)}",
        f"jwt_key = {json.dumps(str(plan.jwt_key))}",
        f"operator = {json.dumps(OPERATOR)}",
        f"software_dir = {json.dumps(str(plan.software))}",
        f"python = {json.dumps(python)}",
        "",
        "[[storage.areas]]",
        'name = "scratch"',
        f"path = {json.dumps(f'{plan.scratch}/{{user}}')}",
    ]
    return "\n".join(lines) + "\n"
