"""Installs packages with uv, which takes a fraction of pip's time, from the indexes that pip is configured for.

uv does not read pip's configuration, so it is translated into uv's environment variables: they may hold a
password, and an argument vector is visible to all users. Where pip has a setting that uv has no counterpart
for, or uv fails for another reason, the caller falls back to pip. Only the standard library is imported:
``scripts/install.py`` uses this module before anything is installed.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_LINE = re.compile(r"(?P<section>global|install|:env:)\.(?P<name>[a-z-]+)=(?P<value>.+)")
_PRECEDENCE = ("global", "install", ":env:")
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
"""Variable of uv for each setting of pip, and the separator of several values."""
_WITHOUT_EFFECT = {
    *("cache-dir", "default-timeout", "disable-pip-version-check", "no-cache-dir", "no-input"),
    *("no-warn-script-location", "prefer-binary", "progress-bar", "quiet", "retries"),
    *("root-user-action", "timeout", "verbose"),
}
"""Settings of pip that do not affect what is installed or from where."""


def translate(configuration: str) -> dict[str, str] | None:
    """Return the environment variables that make uv use pip's configuration; None if a setting has
    no counterpart.

    Args:
        configuration: the output of ``pip config list``.
    """
    settings: dict[str, str] = {}
    matches = [_LINE.fullmatch(line) for line in configuration.splitlines()]
    for section in _PRECEDENCE:
        for match in matches:
            if match is not None and match["section"] == section:
                settings[match["name"]] = str(ast.literal_eval(match["value"]))
    # Like pip, and unlike uv by default: the best version of all indexes.
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, value in settings.items():
        if name in _VARIABLES:
            variable, separator = _VARIABLES[name]
            variables[variable] = separator.join(value.split())
        elif name not in _WITHOUT_EFFECT:
            return None
    return variables


def install_command(
    python: str, arguments: Sequence[str], *, compiled: bool
) -> tuple[list[str], dict[str, str]] | None:
    """Return the command that installs packages with uv, and its environment.

    Args:
        python: the interpreter of the virtual environment that the packages go to.
        arguments: requirements and options that pip and uv have in common.
        compiled: whether modules are compiled at once, for environments that are read-only later.

    Returns:
        Both; None if uv is not installed beside this interpreter or only pip can install here.
    """
    program = Path(sys.executable).parent / "uv"
    if not os.access(program, os.X_OK):
        return None
    listing = [sys.executable, "-m", "pip", "config", "list"]
    configuration = subprocess.run(listing, capture_output=True, text=True, check=False)
    variables = translate(configuration.stdout) if configuration.returncode == 0 else None
    if variables is None:
        return None
    argv = [str(program), "pip", "install", "--python", python, *arguments]
    # Copies instead of links into uv's cache: a file that is edited must not change other environments.
    variables["UV_LINK_MODE"] = "copy"
    if compiled:  # a variable beside the option --no-compile is an error, whatever its value
        variables["UV_COMPILE_BYTECODE"] = "1"
    return argv, {**os.environ, **variables}
