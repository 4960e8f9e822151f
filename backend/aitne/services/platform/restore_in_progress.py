"""Marker file in the data directory. It exists while a backup is restored, and after an interrupted
restoration.
"""

from __future__ import annotations

from pathlib import Path

from aitne.core.errors import SetupError

_MOST_BYTES = 16_384


def restoration_marker_file(data_dir: Path) -> Path:
    """Return the path of the marker file. It contains the command that repeats the restoration."""
    return data_dir / "restoration"


def check_no_interrupted_restoration(data_dir: Path) -> None:
    """Check that no restoration into ``data_dir`` was interrupted, because the platform would then
    start without its database.

    Raises:
        SetupError: a restoration was interrupted, or the marker file cannot be read.
    """
    try:
        with restoration_marker_file(data_dir).open("rb") as file:
            command = file.read(_MOST_BYTES).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise SetupError(f"{error.filename} cannot be read: {error.strerror}.") from error
    shown = "".join(character if character.isprintable() else "?" for character in command)
    raise SetupError(
        f"The restoration of a backup into {data_dir} was broken off, so the platform is not complete. "
        f"Run it again: `{shown}`. What was there before is in the folders before-restore-… in that "
        "directory, and with PostgreSQL in the schemas of that name."
    )
