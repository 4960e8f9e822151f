"""Choice between an upgrade that is asked for and one that was interrupted."""

from __future__ import annotations

from pathlib import Path

import aitne
from aitne.core.errors import Conflict, InvalidInput
from aitne.operations.upgrade.releases import Releases, installed_extras
from aitne.operations.upgrade.upgrade_journal import UpgradeJournal, UpgradeStep
from aitne.operations.upgrade.upgrade_steps import is_continued
from aitne.operations.upgrade.versions import Version, parse_wheel_version
from aitne.supervisor import platform_control


def choose_upgrade(
    data_dir: Path, releases: Releases, *, wheel: Path | None, version: str | None
) -> tuple[UpgradeJournal, Version, bool]:
    """Return the journal of the upgrade to run, its release, and whether it begins now.

    Raises:
        InvalidInput: no release is named and none is in progress, or the name is invalid.
        Conflict: an upgrade to another release, or of another platform, is in progress.
    """
    if wheel is not None and version is not None:
        raise InvalidInput("Name either --wheel or --version, not both.")
    asked: Version | None = None
    if wheel is not None:
        wheel = wheel.expanduser().absolute()
        asked = parse_wheel_version(wheel)
    elif version is not None:
        asked = Version.parse(version)
    earlier = UpgradeJournal.read(releases.root)
    if earlier is not None and is_continued(earlier, None if asked is None else str(asked)):
        if Path(earlier.data_dir) != data_dir:
            raise Conflict(
                f"An upgrade of the platform in {earlier.data_dir} was interrupted. Continue it first: "
                f"`aitne admin upgrade --data-dir {earlier.data_dir}`."
            )
        return earlier, Version.parse(earlier.target), False
    if asked is None:
        raise InvalidInput(
            "No upgrade is in progress. Name the release with --version, or its wheel with --wheel."
        )
    extras = ",".join(installed_extras())
    journal = UpgradeJournal(
        step=UpgradeStep.INSTALL,
        present=releases.selected or aitne.__version__,
        target=str(asked),
        requirement=f"aitne[{extras}]=={asked}"
        if wheel is None
        else f"aitne[{extras}] @ {wheel.as_uri()}",
        data_dir=str(data_dir),
        was_running=platform_control.get_status(data_dir) is not None,
    )
    return journal, asked, True
