"""The mesh of the ranks of a job as users write it."""

from __future__ import annotations

import re

_DIMENSION = re.compile(r"([a-z][a-z0-9_-]{0,31})=([1-9][0-9]{0,4})")
MAX_DIMENSIONS = 8
MESH_HINT = "the sizes of the dimensions, the innermost first, such as tensor=4,pipeline=2,data=8"


def parse_mesh(text: str) -> dict[str, int]:
    """Return the sizes of the dimensions of a mesh such as ``tensor=4,data=8`` by their names, the
    innermost first.

    Raises:
        ValueError: the text is not a mesh, or names a dimension twice.
    """
    sizes: dict[str, int] = {}
    for part in text.split(","):
        match = _DIMENSION.fullmatch(part.strip())
        if match is None or match[1] in sizes or len(sizes) == MAX_DIMENSIONS:
            raise ValueError(f"{text[:80]!r} is not a mesh: write {MESH_HINT}")
        sizes[match[1]] = int(match[2])
    return sizes
