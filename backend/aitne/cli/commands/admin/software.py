"""``admin software``: the software on the nodes."""

from __future__ import annotations

from pathlib import Path

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.shared_options import DataDir


@command("admin software", example="sudo -u owner aitne admin software")
def software(data_dir: DataDir = None) -> int:
    """Install the software for Slurm's nodes into [slurm] software_dir.

    It consists of the agent, JupyterLab's environment and its launcher. Run it once for each
    release, as an account that may write there. `aitne up` also does this if it may write there.
    """
    # The settings and the supervisor are heavier than everything else here.
    from aitne.local_system.settings_loader import load_settings
    from aitne.supervisor.node_software_installation import ensure_node_software

    settings = load_settings(None if data_dir is None else Path(data_dir))
    if not ensure_node_software(settings, output.print_message):
        return 1
    output.print_message(f"{settings.slurm.software_dir} has the software for the nodes.")
    return 0
