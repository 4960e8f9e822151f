"""Old names of methods and parameters of the client, which are accepted until 0.3."""

from __future__ import annotations

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of the deprecated method ``old`` that its name is ``new``."""
    warnings.warn(_text(old, new), DeprecationWarning, stacklevel=3)


def limit_of(limit: int | None, most: Any) -> int | None:
    """Return the maximum number of items of a list; None means all.

    Warns the caller of the method that received ``most``, the old name of ``limit``.
    """
    if most is None:
        return limit
    warnings.warn(_text("most=", "limit="), DeprecationWarning, stacklevel=3)
    return int(most)


def _text(old: str, new: str) -> str:
    return f"{old} is deprecated and will be removed in 0.3. Use {new}."
