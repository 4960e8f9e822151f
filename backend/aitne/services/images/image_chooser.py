"""Choice of a job's image and runtime: from the request to one artifact of the catalogue.

Has no side effects. A job keeps the digest that was resolved for it, so a new version of an image
changes nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aitne.core.errors import FieldProblem
from aitne.core.jobs.template_parameter_check import format_suggestion
from aitne.core.models.image import BARE, Image, ImageState, ImageUse
from aitne.core.ports.runtime import Runtime
from aitne.core.storage.storage_and_container_settings import ContainerSettings

FIRST = "apptainer"
"""Preferred runtime if the site has not configured one, because it needs no daemon."""


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """Requirements of a job on its image."""

    reference: str
    """Image that the job requests: a name with or without a version, the path of an image file, or
    ``BARE`` (no image).
    """
    runtime: str | None
    """Runtime that the job requests; None: any runtime."""
    project: str
    """Project of the job."""
    apps: tuple[str, ...]
    """Apps of the job's template; the image must have all of them."""


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """Runtime and image that were chosen for a job.

    If ``problem`` is set, no image meets the requirements, and the other fields have no meaning.
    """

    runtime: str = BARE
    use: ImageUse | None = None
    """Chosen image; None: the job runs without an image."""
    apps: frozenset[str] | None = None
    """Apps of the image; None means no image, so all apps are available."""
    problem: FieldProblem | None = None
    """Why no image could be chosen; None: an image was chosen, or none is needed."""


class ImageChooser:
    """Component that chooses the image and the runtime of a job from the images and runtimes that
    this platform offers.
    """

    def __init__(
        self, runtimes: Mapping[str, Runtime], settings: ContainerSettings, *, remote: bool
    ) -> None:
        self._settings = settings
        self._runtimes = {
            name: runtime for name, runtime in runtimes.items() if runtime.serves_images
        }
        self._remote = remote

    @property
    def _refusals(self) -> dict[str, str | None]:
        """Return for each runtime the reason why it cannot be used; None if it can.

        This is determined on each call, because a daemon or a package may be installed while the
        platform runs.
        """
        return {
            name: runtime.refusal(remote=self._remote) for name, runtime in self._runtimes.items()
        }

    @property
    def usable(self) -> tuple[str, ...]:
        """List the runtimes that can run images here, the preferred one first."""
        names = [name for name, refusal in self._refusals.items() if refusal is None]
        first = (self._settings.runtime, FIRST)
        return tuple(
            sorted(names, key=lambda name: (first.index(name) if name in first else 2, name))
        )

    def choose(self, request: ImageRequest, images: Sequence[Image]) -> ImageChoice:
        """Choose the image and runtime of a job; ``images`` are the images that the user
        may see.
        """
        if request.reference == BARE:
            if request.runtime not in (None, BARE):
                return _make_problem_choice(
                    "container.runtime", "without an image there is no container", request.runtime
                )
            return ImageChoice()
        refused = self._find_runtime_problem(request.runtime)
        if refused is not None:
            return refused
        if request.reference.startswith("/"):
            return self._choose_own_image(request)
        return self._from_catalogue(request, images)

    def _find_runtime_problem(self, runtime: str | None) -> ImageChoice | None:
        if runtime is None:
            return None
        if runtime not in self._refusals:
            runtime_names = sorted(self._refusals)
            return _make_problem_choice(
                "container.runtime",
                f"there is no runtime {runtime!r}{format_suggestion(runtime, runtime_names)}",
                runtime,
                ", ".join(runtime_names),
            )
        refusal = self._refusals[runtime]
        allowed = ", ".join(self.usable) or "none"
        return (
            None
            if refusal is None
            else _make_problem_choice("container.runtime", refusal, runtime, allowed)
        )

    def _choose_own_image(self, request: ImageRequest) -> ImageChoice:
        if not self._settings.own_images:
            return _make_problem_choice(
                "image",
                "this site runs only images of its catalogue",
                request.reference,
                "an image's name; `aitne image ls` shows them",
            )
        if request.runtime not in (None, FIRST) or FIRST not in self.usable:
            return _make_problem_choice(
                "image",
                f"a user's own image file is run by {FIRST}"
                + ("" if FIRST in self.usable else ", which this platform does not have"),
                request.runtime or request.reference,
                f"container.runtime: {FIRST}",
            )
        if request.apps:
            return _make_problem_choice(
                "image",
                f"it is not known whether a user's own image has the app {request.apps[0]}",
                request.reference,
                "an image of the catalogue",
            )
        return ImageChoice(FIRST, ImageUse(reference=request.reference, path=request.reference))

    def _from_catalogue(self, request: ImageRequest, images: Sequence[Image]) -> ImageChoice:
        name, _, version = request.reference.partition(":")
        named = [image for image in images if image.name == name]
        if version:
            named = [image for image in named if image.version == version]
        project_images = [
            image for image in named if not image.projects or request.project in image.projects
        ]
        if not project_images:
            if named:
                return _make_problem_choice(
                    "image",
                    f"{request.reference} is not for the project {request.project}",
                    request.reference,
                    f"a project of {', '.join(sorted(named[0].projects))}",
                )
            references = _list_references(images, version=bool(version))
            return _make_problem_choice(
                "image",
                f"there is no image {request.reference!r}{format_suggestion(request.reference, references)}",
                request.reference,
                ", ".join([BARE, *references]),
            )
        reasons = []
        for image in sorted(project_images, key=lambda image: image.created_at, reverse=True):
            reason = self._find_image_objection(image, request)
            if reason is None:
                return self._make_choice(image, request)
            reasons.append(f"{image.reference} {reason}")
        able = [image for image in images if self._find_image_objection(image, request) is None]
        return _make_problem_choice(
            "image",
            "; ".join(reasons),
            request.reference,
            ", ".join(
                [*([] if request.runtime else [BARE]), *_list_references(able, version=False)]
            )
            or "none",
        )

    def _find_image_objection(self, image: Image, request: ImageRequest) -> str | None:
        if image.state is ImageState.RETIRED:
            return "is retired: it is kept for jobs that run with it"
        if image.damage is not None:
            return f"is damaged: {image.damage}"
        missing = [app for app in request.apps if app not in image.apps]
        if missing:
            return f"has no app {missing[0]}"
        if not self._runtimes_of(image, request.runtime):
            made_for = ", ".join(artifact.runtime for artifact in image.artifacts)
            if request.runtime is not None:
                return f"is made for {made_for}, not for {request.runtime}"
            whys = [self._refusals.get(artifact.runtime) for artifact in image.artifacts]
            explanation = " ".join(refusal for refusal in whys if refusal)
            return f"is made for {made_for}, which cannot be used here. {explanation}".rstrip(". ")
        return None

    def _runtimes_of(self, image: Image, runtime: str | None) -> list[str]:
        return [
            name
            for name in self.usable
            if image.find_artifact(name) is not None and runtime in (None, name)
        ]

    def _make_choice(self, image: Image, request: ImageRequest) -> ImageChoice:
        runtime = self._runtimes_of(image, request.runtime)[0]
        artifact = image.find_artifact(runtime)
        assert artifact is not None  # noqa: S101 - _runtimes_of has checked it
        python = next((image.apps[app].python for app in request.apps), None)
        use = ImageUse(
            reference=image.reference,
            digest=artifact.digest,
            path=artifact.path,
            size_bytes=artifact.size_bytes,
            mtime_ns=artifact.mtime_ns,
            env=image.env,
            python=python,
            cuda=image.needs.cuda,
        )
        return ImageChoice(runtime, use, frozenset(image.apps))


def _list_references(images: Iterable[Image], *, version: bool) -> list[str]:
    offered = (image for image in images if image.is_offered)
    return list(dict.fromkeys(i.reference if version else i.name for i in offered))


def _make_problem_choice(
    field: str, message: str, value: str | None, allowed: str | None = None
) -> ImageChoice:
    return ImageChoice(problem=FieldProblem(field, message, value, allowed))
