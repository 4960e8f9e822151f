"""Location of the platform's other software for nodes. The archive of the launcher that the platform
writes has this module with other values."""

from __future__ import annotations

NOTEBOOK = ""
"""Name of the folder with the packages for notebooks and their ranks, beside the folder of this
archive; empty: this is no archive, and the packages are those of its own installation."""
