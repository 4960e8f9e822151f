"""Environment of a job's program: the container, the files that it needs, and the folders for
caches.

The functions have no side effects. In a container, the folders of the job's owner keep their paths,
so that a path in a program has the same meaning with and without an image.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import PurePath

from aitne.core.jobs.agent_protocol import AgentNeed, AgentTree
from aitne.core.jobs.bind_mount_rules import BindRoot, check_binds
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.job import Job, JobSpec
from aitne.core.platform.node_software_paths import NodeSoftware
from aitne.core.ports.runtime import Bind, ContainerSpec, RuntimeLimits
from aitne.core.storage.areas import allowed_roots, is_within

DATASETS = "/datasets"
"""Folder in a container where datasets are mounted."""
LAB = "/opt/aitne/lab"
"""Folder in a container with the program that starts the single-user server."""
SPAWNER = "/opt/aitne/launcher"
"""Folder in a container with the program that starts a node's ranks."""
NOTEBOOK_PACKAGE = "/opt/aitne/notebook"
"""Folder in a container with the packages that notebooks and their ranks use."""
CACHES = {
    "XDG_CACHE_HOME": "",
    "PIP_CACHE_DIR": "pip",
    "CONDA_PKGS_DIRS": "conda",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
    "TRITON_CACHE_DIR": "triton",
}
"""Environment variables that tell programs where to cache downloads, with the folder for each.

XDG_CACHE_HOME is the base directory specification's; not all of the other programs follow it.
"""


def make_container_spec(
    job: Job, folder: str, software: NodeSoftware, limits: RuntimeLimits
) -> ContainerSpec:
    """Return the specification of the job's container, without the program to run.

    ``folder`` is the job folder.

    Raises:
        InvalidInput: a folder may not be mounted into a container.
    """
    spec = job.spec
    home = spec.home or "/"
    if spec.image_use is None:
        return ContainerSpec(image=None, argv=(), home=home, workdir="/")
    folders = [spec.home or folder, folder, *(area.path for area in spec.areas)]
    own_binds = [Bind(source=path, target=path, writable=True) for path in _remove_nested(folders)]
    ours: list[Bind] = []
    if spec.apps:
        ours.append(Bind(source=str(software.launcher.parent), target=LAB))
    if spec.distributed is not None:
        ours.append(Bind(source=str(PurePath(software.spawner[-1]).parent), target=SPAWNER))
        if spec.distributed.horovod:
            # The launcher looks for the packages beside its own folder.
            beside = PurePath(SPAWNER).with_name(software.notebook.name)
            ours.append(Bind(source=str(software.notebook), target=str(beside)))
    if spec.apps or spec.rank_group is not None or spec.notebook is not None:
        ours.append(Bind(source=str(software.notebook), target=NOTEBOOK_PACKAGE))
    data = [
        Bind(source=dataset.path, target=f"{DATASETS}/{dataset.name}") for dataset in spec.datasets
    ]
    binds = sorted([*own_binds, *ours, *data], key=lambda bind: PurePath(bind.target).parts)
    roots = [BindRoot(source=path, writable=True) for path in folders]
    roots += [BindRoot(source=bind.source, target=bind.target) for bind in (*ours, *data)]
    check_binds(binds, roots)
    return ContainerSpec(
        image=spec.image_use,
        argv=(),
        binds=tuple(binds),
        home=home,
        workdir=_resolve_workdir(job, folder, home),
        gpus=spec.resources.gpu.count > 0,
        writable=spec.container.writable,
        network=spec.container.network,
        limits=limits,
        labels={
            "aitne.job": str(job.array_job_id or job.id),
            "aitne.attempt": str(job.attempt),
            "aitne.owner": job.owner,
        },
    )


def make_agent_tree(job: Job, folder: str) -> AgentTree | None:
    """Return the location of the files for the job's working folder; None if the job has neither an
    uploaded tree nor a repository.

    Args:
        folder: path of the job folder. All attempts and tasks share one tree.
    """
    spec = job.spec
    path = f"{folder}/tree"
    if spec.tree is not None:
        return AgentTree(path=path, digest=spec.tree.digest)
    if spec.repo is not None:
        return AgentTree(path=path, url=spec.repo.url, ref=spec.repo.ref, subdir=spec.repo.subdir)
    return None


def get_workdir(job: Job, folder: str) -> str:
    """Return the job's working folder, as an absolute path or one that begins with ``~``.

    Args:
        folder: path of the job folder.
    """
    tree = make_agent_tree(job, folder)
    if tree is None:
        return job.spec.workdir or "~"
    return tree.path if tree.subdir is None else f"{tree.path}/{tree.subdir}"


def get_agent_workdir(job: Job, folder: str, container: ContainerSpec) -> str:
    """Return the working directory in which the agent is started: the job's working directory, or
    ``/`` if that directory exists only inside the container ``container``. ``folder`` is the job folder.
    """
    if container.image is None:
        return get_workdir(job, folder)
    shared_paths = [bind.source for bind in container.binds if bind.source == bind.target]
    return container.workdir if is_within(container.workdir, shared_paths) else "/"


def make_cache_variables(spec: JobSpec) -> dict[str, str]:
    """Return environment variables that make programs store caches outside a small home folder.

    Empty if the site has configured no folder for caches, or if the container does not have that
    folder.
    """
    if spec.caches is None:
        return {}
    if spec.image_use is not None and not is_within(spec.caches, list_own_folders(spec)):
        return {}
    caches = PurePath(spec.caches)
    return {name: str(caches / below) for name, below in CACHES.items()}


def list_needed_paths(job: Job) -> tuple[AgentNeed, ...]:
    """List the files and folders that must exist on the node before the job starts."""
    spec = job.spec
    needs = [_make_dataset_need(dataset) for dataset in spec.datasets]
    use = spec.image_use
    if use is None:
        return tuple(needs)
    if spec.home is not None:
        needs.append(AgentNeed(what="the home folder", path=spec.home, kind="folder"))
    needs += [
        AgentNeed(what=f"the {area.name} folder", path=area.path, kind="folder")
        for area in spec.areas
    ]
    if use.path is not None:
        image = AgentNeed(
            what=f"the image {use.reference}",
            path=use.path,
            kind="file",
            within=list_own_folders(spec) if use.digest is None else (),
            size_bytes=use.size_bytes,
            mtime_ns=use.mtime_ns,
            sha256=None if use.digest is None else use.digest.removeprefix("sha256:"),
        )
        needs.insert(0, image)
    return tuple(needs)


def _make_dataset_need(use: DatasetUse) -> AgentNeed:
    # Its path is the real one: a link in its place could lead anywhere.
    return AgentNeed(
        what=f"the dataset {use.name}:{use.version}",
        path=use.path,
        kind="folder",
        within=(use.path,),
    )


def list_own_folders(spec: JobSpec) -> tuple[str, ...]:
    """List the folders of the job's owner and of its project that a container has as bind
    mounts.
    """
    return allowed_roots(spec.areas, [spec.home] if spec.home else ())


def _remove_nested(paths: Iterable[str]) -> list[str]:
    """Return the folders without duplicates and without folders that lie inside another one."""
    outermost: list[str] = []
    for path in sorted(paths):
        if not is_within(path, outermost):
            outermost.append(path)
    return outermost


def _resolve_workdir(job: Job, folder: str, home: str) -> str:
    workdir = get_workdir(job, folder)
    if workdir == "~":
        return home
    path = home.rstrip("/") + workdir[1:] if workdir.startswith("~/") else workdir
    # Only the file system can resolve a path with "..", so runtimes refuse it.
    return path if ".." in path.split("/") else "/" + posixpath.normpath(path).lstrip("/")
