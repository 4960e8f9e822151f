"""Catalogue of job templates, and the environment variables of their parameters.

An invalid file is refused with its line and the reason; the others stay in use. Files are checked
again on use, at most once a second, so an edit needs no restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aitne.core.errors import InvalidInput, NotFound, TemplateError
from aitne.core.jobs.template_parameter_check import check_parameters
from aitne.core.models.job import Scalar
from aitne.core.models.template import Template
from aitne.local_system.platform_folders import get_packaged_path
from aitne.services.jobs.template_file import load_template

RECHECK_S = 1.0


def builtin_folder() -> Path:
    """Return the folder of the templates that are part of the platform."""
    return get_packaged_path("jobtemplates")


@dataclass(frozen=True, slots=True)
class ExpandedTemplate:
    """Result of expanding a template with the parameters of a job."""

    parameters: dict[str, Scalar]
    """Values of all parameters, including defaults."""
    env: dict[str, str]
    """Variables of the template, and one ``AITNE_PARAM_<NAME>`` per parameter."""
    workdir: str | None
    """Working directory, which is the value of a parameter; None: the template defines none."""


_Seen = tuple[tuple[Path, int, int], ...]


@dataclass(slots=True)
class _Loaded:
    seen: _Seen | None = None
    checked_at: float = float("-inf")
    templates: dict[str, Template] = field(default_factory=dict)
    problems: tuple[TemplateError, ...] = ()


class TemplateCatalog:
    """Job templates from several folders; files are read again when they change. A template in a
    later folder replaces one of the same name in an earlier folder.
    """

    def __init__(
        self, folders: Sequence[Path], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._folders = tuple(folders)
        self._monotonic = monotonic
        self._loaded = _Loaded()

    def templates(self) -> Sequence[Template]:
        """List all valid templates by name."""
        loaded = self._get_loaded().templates
        return [loaded[name] for name in sorted(loaded)]

    def problems(self) -> Sequence[TemplateError]:
        """List the errors of the template files that were refused."""
        return self._get_loaded().problems

    def get(self, name: str) -> Template:
        """Return the template called ``name``.

        Raises:
            NotFound: there is none, or its file was refused.
        """
        template = self.find(name)
        if template is None:
            raise NotFound("template", name)
        return template

    def find(self, name: str | None) -> Template | None:
        """Return the template called ``name``; None: there is none, or its file was refused."""
        return None if name is None else self._get_loaded().templates.get(name)

    def expand(self, template: Template, parameters: dict[str, Scalar]) -> ExpandedTemplate:
        """Check the values against the parameters' types and limits and fill in the defaults.

        Raises:
            InvalidInput: values are wrong; there is one problem for each, with the field
                ``parameters.<name>``.
        """
        values = check_parameters(template, parameters)
        env = dict(template.env)
        env.update(
            {f"AITNE_PARAM_{name.upper()}": _format_value(value) for name, value in values.items()}
        )
        folder = template.workdir_from
        workdir = None if folder is None else str(values[folder])
        if workdir is not None and workdir != "~" and not workdir.startswith(("/", "~/")):
            raise InvalidInput.field(
                f"parameters.{folder}",
                f"{workdir!r} is not a path that starts at / or at home",
                value=workdir,
                allowed="an absolute path, or one below home such as ~/project",
            )
        return ExpandedTemplate(values, env, workdir)

    def _get_loaded(self) -> _Loaded:
        now = self._monotonic()
        if now - self._loaded.checked_at >= RECHECK_S:
            fingerprints = self._read_fingerprints()
            if fingerprints != self._loaded.seen:
                self._loaded = self._load_templates(fingerprints)
            self._loaded.checked_at = now
        return self._loaded

    def _read_fingerprints(self) -> _Seen:
        fingerprints = []
        for folder in self._folders:
            if not folder.is_dir():
                fingerprints.append((folder, 0, 0))  # reading it reports the error
                continue
            for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
                try:
                    stat = path.stat()
                except OSError:
                    # A dangling link, or a file deleted since: reading it reports the error.
                    fingerprints.append((path, 0, 0))
                else:
                    fingerprints.append((path, stat.st_mtime_ns, stat.st_size))
        return tuple(fingerprints)

    def _load_templates(self, fingerprints: _Seen) -> _Loaded:
        templates: dict[str, Template] = {}
        origin: dict[str, Path] = {}
        problems: list[TemplateError] = []
        for path, _, _ in fingerprints:
            try:
                template = load_template(path)
            except TemplateError as error:
                problems.append(error)
                continue
            other = origin.get(template.name)
            if other is not None and other.parent == path.parent:
                reason = f"name: {template.name} is already the name of {other.name}"
                problems.append(TemplateError(str(path), 1, reason))
                continue
            templates[template.name], origin[template.name] = template, path
        return _Loaded(fingerprints, float("-inf"), templates, tuple(problems))


def _format_value(value: Scalar) -> str:
    """Return the text of the value for an environment variable, such as ``true``, ``3`` or
    ``0.001``.
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
