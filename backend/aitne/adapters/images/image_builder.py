"""Build of an image: from the folder with its recipe to tested image files that can be registered
in the catalogue.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aitne
from aitne.adapters.images import build_definition, layer_cache, software_bill
from aitne.adapters.images.apptainer_images import Apptainer
from aitne.adapters.images.docker_daemon import DOCKER, DockerDaemon
from aitne.adapters.images.image_build_log import Progress, Work
from aitne.adapters.images.image_folder import APPTAINER, ImageFolder
from aitne.adapters.images.prerequisites import require_apptainer
from aitne.adapters.images.recipes import Recipe
from aitne.core.errors import SetupError
from aitne.core.models.image import Artifact, ImageApp, Package
from aitne.core.settings import Settings

LAB = "/opt/aitne/lab"
"""Folder in a container where the launcher of JupyterLab sessions is mounted."""
_LAUNCHER = Path(aitne.__file__).parent / "session_server" / "launcher.py"
_EARLY = (
    f"import sys; sys.path.insert(0, {LAB!r}); import launcher; launcher.import_early(plain=False)"
)
_ROOT_BYTES, _DEBIAN_BYTES, _PYTHON_BYTES = 40 << 20, 1 << 20, 16 << 20
"""Estimated sizes in the image file: a minimal Debian, and one listed Debian or Python package with
its dependencies.
"""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Result of a build. The artifact files have their final names, but the image is not in the
    catalogue yet.
    """

    artifacts: tuple[Artifact, ...]
    """Artifacts, one for each container runtime."""
    packages: tuple[Package, ...]
    """Software bill: all packages in the image."""
    log: Path
    """Path of the log."""
    seconds: float
    """Duration of the build or import in seconds."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Plan of a build."""

    recipe: Recipe
    """Recipe of the image."""
    runtimes: tuple[str, ...]
    """Container runtimes for which an artifact is made, such as ``apptainer``."""
    missing_layers: tuple[str, ...]
    """Layers that are not in the cache: ``debian`` and ``python``, one of them, or none."""
    expected_bytes: int
    """Estimated size of the image file in bytes."""


def make_build_plan(recipe: Recipe, runtimes: Sequence[str]) -> BuildPlan:
    """Return the plan for building the recipe for these container runtimes; nothing is written."""
    expected = _ROOT_BYTES + len(recipe.debian) * _DEBIAN_BYTES + len(recipe.python) * _PYTHON_BYTES
    return BuildPlan(recipe, tuple(runtimes), layer_cache.find_missing_layers(recipe), expected)


def require_root() -> None:
    """Raise ``SetupError`` unless the process runs as root."""
    if os.geteuid() != 0:
        raise SetupError(
            "Images are built by root, because their files belong to root: run it with sudo. "
            "`aitne admin image import` imports images that others have built."
        )


def select_runtimes(settings: Settings, *, docker: bool) -> list[str]:
    """Return the container runtimes for which artifacts are built. Docker is included if ``docker``
    is True or if jobs on this platform can use it.

    Raises:
        SetupError: ``docker`` is True and Docker does not answer.
    """
    containers = settings.containers
    useful = settings.capabilities.trusts_agents or containers.docker_cgroup_parent is not None
    if not docker and not useful:
        return [APPTAINER]
    refusal = DockerDaemon(containers.docker_url, containers.tmp_dir).refusal()
    if docker and refusal is not None:
        raise SetupError(refusal)
    return [APPTAINER] if refusal is not None else [APPTAINER, DOCKER]


def get_log_path(name: str) -> Path:
    """Return the path of the log of the last build or import of the image."""
    return layer_cache.get_cache_folder() / "logs" / f"{name}.log"


def build_image(plan: BuildPlan, settings: Settings, progress: Progress) -> BuildResult:
    """Make the layers, the artifacts and the software bill, and test the artifacts.

    Raises:
        SetupError: the process does not run as root, or a step failed; the message names the log,
            and all partial results are removed.
    """
    require_root()
    folder = ImageFolder(settings.images_dir)
    # Before the layers, which take minutes: a folder that cannot be written is reported at once.
    with folder.create_work_folder() as making:
        return _build_image(plan, settings, folder, making, progress)


def _build_image(
    plan: BuildPlan, settings: Settings, folder: ImageFolder, making: Path, progress: Progress
) -> BuildResult:
    recipe = plan.recipe
    require_apptainer(progress, settings.containers.apptainer)
    work = Work(get_log_path(recipe.file.name), progress)
    if APPTAINER in plan.runtimes:
        folder.check_space(2 * plan.expected_bytes)
    made = layer_cache.make_layers(recipe, settings.containers.apptainer, work)
    with work.convert_errors("Reading the packages of the layers"):
        packages = software_bill.merge_software_bills(
            *(software_bill.read_software_bill(layer) for _, layer in made.folders())
        )
    artifacts = []
    target = making / "image.sif"
    if APPTAINER in plan.runtimes:
        apptainer = Apptainer(settings.containers.apptainer, settings.containers.tmp_dir)
        apptainer.build(made, build_definition.make_apptainer_definition(recipe), target, work)
        smoke_test_sif(apptainer, target, recipe.smoke, recipe.file.apps, recipe.env, making, work)
    if DOCKER in plan.runtimes:
        artifacts.append(_build_docker_image(recipe, made, settings, work))
    if APPTAINER in plan.runtimes:
        with work.convert_errors("Storing the image"):
            artifact = folder.add_file(target, recipe.file.name, recipe.file.version)
            artifacts.append(artifact)
    work.report_step("Built and tested")
    return BuildResult(tuple(artifacts), packages, work.path, work.seconds)


def _build_docker_image(
    recipe: Recipe, made: layer_cache.Layers, settings: Settings, work: Work
) -> Artifact:
    daemon = DockerDaemon(settings.containers.docker_url, settings.containers.tmp_dir)
    artifact = daemon.build(made, build_definition.make_dockerfile(recipe), recipe.reference, work)
    daemon.run_smoke_tests(artifact.digest, _to_shell_commands(recipe.smoke), work, env=recipe.env)
    return artifact


def smoke_test_sif(
    apptainer: Apptainer,
    image: Path,
    smoke: Iterable[str],
    apps: dict[str, ImageApp],
    env: dict[str, str],
    scratch: Path,
    work: Work,
) -> None:
    """Run the test commands ``smoke`` in an image file; if ``apps`` contains JupyterLab, also start
    it as a session does.

    ``scratch`` is a temporary folder that the caller removes afterwards.

    Raises:
        SetupError: a command failed; the message contains its output.
    """
    commands = _to_shell_commands(smoke)
    binds = []
    pythons = {app.python for app in apps.values() if app.kind == "jupyterhub" and app.python}
    if pythons:
        # A copy: other users may be unable to access the folder of this package.
        lab = scratch / "lab"
        lab.mkdir(mode=0o755)
        shutil.copy(_LAUNCHER, lab)
        (lab / _LAUNCHER.name).chmod(0o644)
        binds.append((lab, LAB))
        commands += [[python, "-c", _EARLY] for python in sorted(pythons)]
    apptainer.run_smoke_tests(
        image, commands or [["/bin/sh", "-c", "true"]], work, env=env, binds=binds
    )


def _to_shell_commands(commands: Iterable[str]) -> list[list[str]]:
    return [["/bin/sh", "-c", command] for command in commands]
