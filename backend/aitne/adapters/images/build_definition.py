"""The Apptainer definition and the Dockerfile of an image, both generated from its one package
list.

Neither file installs packages. Both only combine the layers that ``layers`` makes from the lists in
``image.yaml``: ``debian``, a root file system, and ``python``, a virtual environment. So both
contain the same packages, and no container registry is used.
"""

from __future__ import annotations

import shlex
import textwrap

from aitne.adapters.images.recipes import SUITE, Recipe

DEFINITION = "apptainer.def"
DOCKERFILE = "Dockerfile"
DEBIAN = "debian"
"""The folder (for Docker: the archive ``debian.tar``) with the Debian layer."""
PYTHON = "python"
LABEL = "org.aitne.image"
_WIDTH = 100


def make_apptainer_definition(recipe: Recipe) -> str:
    """Return the definition file for ``apptainer build``, run in a folder that contains the
    layers.
    """
    parts = [
        _make_header(recipe, f"{DEBIAN}/ and {PYTHON}/" if recipe.python_prefix else f"{DEBIAN}/"),
        f"Bootstrap: localimage\nFrom: {DEBIAN}\n",
    ]
    if recipe.python_prefix:
        place = f'"${{APPTAINER_ROOTFS}}{recipe.python_prefix}"'
        parts.append(f"%setup\n    mkdir -p {place}\n    cp -a {PYTHON}/. {place}\n")
    if recipe.env:
        lines = [f"    export {name}={shlex.quote(value)}" for name, value in recipe.env.items()]
        parts.append("\n".join(["%environment", *lines]) + "\n")
    parts.append(f"%labels\n    {LABEL} {recipe.reference}\n")
    parts.append('%runscript\n    exec /bin/bash "$@"\n')
    return "\n".join(parts)


def make_dockerfile(recipe: Recipe) -> str:
    """Return the Dockerfile for ``docker build``, run in a folder that contains the layers as
    archives.
    """
    archives = f"{DEBIAN}.tar and {PYTHON}.tar" if recipe.python_prefix else f"{DEBIAN}.tar"
    lines = ["FROM scratch", f"ADD {DEBIAN}.tar /"]
    if recipe.python_prefix:
        lines.append(f"ADD {PYTHON}.tar {recipe.python_prefix}/")
    lines += [f"ENV {name}={_quote_for_docker(value)}" for name, value in recipe.env.items()]
    lines.append(f"LABEL {LABEL}={_quote_for_docker(recipe.reference)}")
    lines.append('CMD ["/bin/bash"]')
    return _make_header(recipe, archives) + "\n" + "\n".join(lines) + "\n"


def _make_header(recipe: Recipe, layers: str) -> str:
    """Return a header that lists the image's contents for readers; the build takes the packages
    from ``image.yaml`` alone.
    """
    text = [
        f"{recipe.reference}: made from image.yaml, which alone says what is in it. Do not change this "
        f"file. `aitne admin image build` puts {layers} beside it, which hold:",
        f"Debian {SUITE}: {' '.join(recipe.debian)}.",
    ]
    if recipe.python_prefix:
        text.append(f"In {recipe.python_prefix}, from PyPI: {' '.join(recipe.python)}.")
    if recipe.wheels:
        text.append(f"And wheels of the machine that builds: {' '.join(recipe.wheels)}.")
    lines = [line for part in text for line in _wrap_comment(part)]
    return "\n".join(lines) + "\n"


def _wrap_comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _quote_for_docker(value: str) -> str:
    """Quote ``value`` for a Dockerfile, which would otherwise substitute `$`."""
    for char in '\\"$':
        value = value.replace(char, f"\\{char}")
    return f'"{value}"'
