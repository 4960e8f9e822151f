"""Reading of files with a bounded size."""

from __future__ import annotations

from pathlib import Path

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.slurm import MAX_BYTES


def read_bounded_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file.

    Raises:
        TopologyError: the file does not exist, is too large or empty, or is not text.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise TopologyError(
            f"it cannot be read: {error.strerror}", "Give the path of a file.", file=str(path)
        ) from error
    if len(content) > max_bytes:
        raise TopologyError(
            f"it has more than {max_bytes >> 10} KiB", "Give a smaller file.", file=str(path)
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TopologyError(
            "it is not text in UTF-8", "Give a text file.", file=str(path), line=line
        ) from error
    if not text.strip():
        raise TopologyError("it is empty", "Write the file again.", file=str(path))
    return text
