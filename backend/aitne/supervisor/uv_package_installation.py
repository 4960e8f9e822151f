"""Installation of packages with uv, which takes a fraction of pip's time, from the indexes for
which pip is configured.

uv does not read pip's configuration, so it is translated to uv's environment variables and not to
arguments: the configuration may contain a password, and a command line is visible to all users. If
pip has a setting without an equivalent in uv, or uv fails for another reason, the caller uses pip.
Only the standard library is imported, since ``scripts/install.py`` uses this module before anything
is installed.
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
"""Environment variable of uv for each setting of pip, and the separator between several values."""
_WITHOUT_EFFECT = {
    *("cache-dir", "default-timeout", "disable-pip-version-check", "no-cache-dir", "no-input"),
    *("no-warn-script-location", "prefer-binary", "progress-bar", "quiet", "retries"),
    *("root-user-action", "timeout", "verbose"),
}
"""Settings of pip that affect neither which packages are installed nor from where."""


def translate_pip_configuration(configuration: str) -> dict[str, str] | None:
    """Return the environment variables with which uv uses pip's configuration; None if a setting
    has no equivalent in uv.

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


def make_install_command(
    python: str, arguments: Sequence[str], *, compiled: bool
) -> tuple[list[str], dict[str, str]] | None:
    """Return the command that installs packages with uv, and its environment variables. None: uv is
    not installed with this interpreter, or only pip can install packages here.

    Args:
        python: interpreter of the virtual environment into which packages are installed.
        arguments: requirements, and options that pip and uv have in common.
        compiled: whether to compile modules during the installation, for environments that become
            read-only.
    """
    program = Path(sys.executable).parent / "uv"
    if not os.access(program, os.X_OK):
        return None
    configuration = _read_pip_configuration()
    variables = None if configuration is None else translate_pip_configuration(configuration)
    if variables is None:
        return None
    argv = [str(program), "pip", "install", "--python", python, *arguments]
    # Copies instead of links into uv's cache: a file that is edited must not change other environments.
    variables["UV_LINK_MODE"] = "copy"
    if compiled:  # a variable beside the option --no-compile is an error, whatever its value
        variables["UV_COMPILE_BYTECODE"] = "1"
    return argv, {**os.environ, **variables}


def list_package_indexes() -> list[str]:
    """Return the indexes and folders from which pip is configured to install packages."""
    variables = translate_pip_configuration(_read_pip_configuration() or "")
    if variables is None:
        return ["the indexes in pip's settings"]
    named = (variables.get(name, "") for name in ("UV_INDEX", "UV_FIND_LINKS"))
    others = [source for text in named for source in re.split(r"[ ,]", text) if source]
    return [variables.get("UV_DEFAULT_INDEX", "https://pypi.org/simple"), *others]


def without_password(url: str) -> str:
    """Return the URL without the user name and the password."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _read_pip_configuration() -> str | None:
    listing = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(listing, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
