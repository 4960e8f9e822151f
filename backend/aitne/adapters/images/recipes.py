"""Recipes of images: folders (such as those in ``containers/``) that describe one image each in an
``image.yaml``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import ValidationError

from aitne.core.errors import InvalidInput
from aitne.core.models.image import IMAGE_NAME, ImageFile
from aitne.core.validation_messages import explain_error
from aitne.local_system.platform_folders import get_packaged_path

FILE = "image.yaml"
CONSTRAINTS = "constraints.txt"
"""Optional file beside ``image.yaml``, in the format of pip's constraints: versions of the packages
for which ``image.yaml`` gives none.
"""
SUITE = "bookworm"
"""Debian release of every image, independent of the machine on which the image is built."""
STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MAX_BYTES = 1 << 20
_MOST_BASES = 8
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Complete instructions for building an image: its ``image.yaml`` merged with those of the
    images that it extends.
    """

    file: ImageFile
    """Content of the image's own ``image.yaml``."""
    bases: tuple[str, ...]
    """Names of the images that it extends, the directly extended one first."""
    debian: tuple[str, ...]
    """Debian packages, sorted and without duplicates."""
    python: tuple[str, ...]
    """Python packages in the order of the lists, those of the extended images first."""
    python_prefix: str | None
    """Path of the virtual environment in the image; None: the image has no Python packages."""
    env: dict[str, str]
    """Environment variables of programs in the image."""
    smoke: tuple[str, ...]
    """Commands that test the image."""
    wheels: tuple[str, ...] = ()
    """Names of wheels from the machine that builds the image (see ``wheels``), those of the
    extended images first.
    """
    constraints: str = field(default="", repr=False)

    @property
    def reference(self) -> str:
        """The reference of the image: ``name:version``."""
        return f"{self.file.name}:{self.file.version}"

    @property
    def document(self) -> dict[str, object]:
        """Return the description of the image that is stored in the catalogue, as a JSON document."""
        file = self.file.model_dump(
            mode="json", include={"name", "version", "description", "apps", "needs"}
        )
        return file | {"env": self.env}


def builtin_folder() -> Path:
    """Return the folder with the recipes that are shipped with the platform."""
    return get_packaged_path("containers")


def list_recipe_names(root: Path) -> tuple[str, ...]:
    """Return the names of the images that have a folder with a recipe in ``root``."""
    return tuple(sorted(path.parent.name for path in root.glob(f"*/{FILE}")))


def find_recipe_folder(name: str, root: Path | None = None) -> Path:
    """Return the folder of an image's recipe. ``name`` is the name of an image whose recipe is
    shipped with the platform, or a path, which contains a slash.

    Raises:
        InvalidInput: there is no such recipe; the message lists those that exist.
    """
    shipped = root or builtin_folder()
    if "/" in name or name in (".", ".."):
        folder = Path(name).expanduser().absolute()
        if not (folder / FILE).is_file():
            raise InvalidInput.field("NAME", f"there is no {FILE} in {folder}", value=name)
        return folder
    if re.fullmatch(IMAGE_NAME, name) is None or not (shipped / name / FILE).is_file():
        names = ", ".join(list_recipe_names(shipped))
        raise InvalidInput.field(
            "NAME",
            f"there is no image folder {name!r}",
            value=name,
            allowed=f"{names}, or the path of a folder of your own such as ./{_make_example_name(name)}",
        )
    return shipped / name


def _make_example_name(name: str) -> str:
    return name if re.fullmatch(IMAGE_NAME, name) else "my-image"


def read_image_file(folder: Path) -> ImageFile:
    """Read and validate the folder's ``image.yaml``.

    Raises:
        InvalidInput: the file cannot be read or violates the schema; the error lists the invalid
            fields.
    """
    path = folder / FILE
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidInput(f"{path} is larger than {_MAX_BYTES} bytes.")
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise InvalidInput(f"{path}{line}: {error.problem or 'this is not YAML'}.") from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError, RecursionError) as error:
        # Not only YAMLError: an invalid date or number raises another error.
        raise InvalidInput(f"{path} is not YAML: {error}.") from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} is not a mapping of fields, such as name: …")
    try:
        image = ImageFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{path}: {location}: {explain_error(first)}.") from error
    _check_image_file(path, image)
    return image


def _check_image_file(path: Path, file: ImageFile) -> None:
    """Check rules that the schema cannot express; raises ``InvalidInput``.

    The values are written to files with a syntax of their own (Apptainer definition, Dockerfile),
    where a line break would begin another instruction and Apptainer would substitute text in double
    braces.
    """
    for name, value in file.env.items():
        if _UNPRINTABLE.search(value) or "{{" in value:
            raise InvalidInput(
                f"{path}: env.{name}: a variable of an image has one line and no double braces."
            )
    if (file.python or file.wheels) and file.base is None and file.python_prefix is None:
        raise InvalidInput(
            f"{path}: python_prefix is missing: set the folder of the Python packages, such as "
            f"/opt/{file.name}."
        )
    if _UNPRINTABLE.search(file.description):
        raise InvalidInput(f"{path}: description: it must be one line.")


def read_recipe(folder: Path, root: Path | None = None) -> Recipe:
    """Return the recipe in ``folder``, merged with those of the images that it extends. The
    extended recipes are in sibling folders or shipped with the platform.

    Raises:
        InvalidInput: a file is invalid, an extended image is missing, or the images extend each
            other in a cycle.
    """
    chain = _list_base_folders(folder, root or builtin_folder())
    files = [read_image_file(image_folder) for image_folder in chain]
    prefixes = [file.python_prefix for file in files if file.python_prefix is not None]
    if len(set(prefixes)) > 1:
        raise InvalidInput(
            f"{folder / FILE}: python_prefix {prefixes[0]} is not its base's, {prefixes[1]}. An image "
            "has one virtual environment."
        )
    prefix = prefixes[0] if prefixes else None
    rootward = list(reversed(files))
    env = {} if prefix is None else {"PATH": f"{prefix}/bin:{STANDARD_PATH}"}
    for file in rootward:
        env.update(file.env)
    return Recipe(
        file=files[0],
        bases=tuple(file.name for file in files[1:]),
        debian=tuple(sorted({package for file in files for package in file.debian})),
        python=tuple(dict.fromkeys(package for file in rootward for package in file.python)),
        python_prefix=prefix,
        env=env,
        smoke=tuple(dict.fromkeys(command for file in rootward for command in file.smoke)),
        wheels=tuple(dict.fromkeys(name for file in rootward for name in file.wheels)),
        constraints=_read_constraints(chain),
    )


def _list_base_folders(folder: Path, shipped: Path) -> list[Path]:
    chain = [folder]
    while (base := read_image_file(chain[-1]).base) is not None:
        places = (chain[-1].parent / base, shipped / base)
        base_folder = next((place for place in places if (place / FILE).is_file()), None)
        if base_folder is None:
            raise InvalidInput(
                f"{chain[-1] / FILE}: base: there is no image folder {base} beside it, nor among "
                f"the shipped ones ({', '.join(list_recipe_names(shipped))})."
            )
        if base_folder in chain or len(chain) > _MOST_BASES:
            raise InvalidInput(f"{folder / FILE}: base: its bases form a cycle.")
        chain.append(base_folder)
    return chain


def _read_constraints(chain: list[Path]) -> str:
    """Return the text of the first constraints file in ``chain``: the recipe folders of the image
    and of the images that it extends, in this order. Return an empty text if no folder has one.
    """
    for folder in chain:
        path = folder / CONSTRAINTS
        if path.is_file():
            try:
                return path.read_text(encoding="utf-8-sig")
            except (OSError, ValueError) as error:
                raise InvalidInput(f"{path} cannot be read: {error}.") from error
    return ""
