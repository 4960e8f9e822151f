"""Warnings for deprecated names of methods and parameters of the client, which work until version
0.3."""

from __future__ import annotations

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of the deprecated method ``old`` that it is now called ``new``."""
    warnings.warn(_format_warning(old, new), DeprecationWarning, stacklevel=3)


def resolve_deprecated_limit(limit: int | None, most: Any) -> int | None:
    """Return the maximum number of items of a list, given as ``limit`` or as the deprecated
    ``most``; None means all items.

    If ``most`` is given, a deprecation warning is shown at the call of the method that received it.
    """
    if most is None:
        return limit
    warnings.warn(_format_warning("most=", "limit="), DeprecationWarning, stacklevel=3)
    return int(most)


def _format_warning(old: str, new: str) -> str:
    return f"{old} is deprecated and will be removed in 0.3. Use {new}."
