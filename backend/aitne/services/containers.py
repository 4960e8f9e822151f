"""From a job to what its program sees: the container, what must be there first, where caches go.

Pure. In a container the owner's folders keep their own paths, so that a path in a program means the
same with and without an image.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import PurePath

from aitne.core.agent_protocol import AgentNeed
from aitne.core.areas import allowed_roots, within
from aitne.core.containers import BindRoot, check_binds
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.job import Job, JobSpec
from aitne.core.node_software import NodeSoftware
from aitne.core.ports.runtime import Bind, ContainerSpec, Limits

DATASETS = "/datasets"
"""Where datasets are seen in a container."""
LAB = "/opt/aitne/lab"
"""Where the program that becomes the single-user server is seen in a container."""
SPAWNER = "/opt/aitne/launch"
"""Where the program that starts a node's ranks is seen in a container."""
CACHES = {
    "XDG_CACHE_HOME": "",
    "PIP_CACHE_DIR": "pip",
    "CONDA_PKGS_DIRS": "conda",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
    "TRITON_CACHE_DIR": "triton",
}
"""What tells programs where to keep what they can fetch again, and the folder for it.
XDG_CACHE_HOME is the base directory specification's; the others do not heed it everywhere."""


def container_of(job: Job, folder: str, software: NodeSoftware, limits: Limits) -> ContainerSpec:
    """What the runtime is given, but for the program. ``folder`` is the job's own.

    Raises:
        InvalidInput: a folder is none that a container may be given.
    """
    spec = job.spec
    home = spec.home or "/"
    if spec.image_use is None:
        return ContainerSpec(image=None, argv=(), home=home, workdir="/")
    folders = [spec.home or folder, folder, *(area.path for area in spec.areas)]
    own = [Bind(source=path, target=path, writable=True) for path in _outermost(folders)]
    ours = [Bind(source=str(software.launcher.parent), target=LAB)] if spec.apps else []
    if spec.distributed is not None:
        ours.append(Bind(source=str(PurePath(software.spawner[-1]).parent), target=SPAWNER))
    data = [Bind(source=each.path, target=f"{DATASETS}/{each.name}") for each in spec.datasets]
    binds = sorted([*own, *ours, *data], key=lambda bind: PurePath(bind.target).parts)
    roots = [BindRoot(source=path, writable=True) for path in folders]
    roots += [BindRoot(source=bind.source, target=bind.target) for bind in (*ours, *data)]
    check_binds(binds, roots)
    return ContainerSpec(
        image=spec.image_use,
        argv=(),
        binds=tuple(binds),
        home=home,
        workdir=_workdir(spec, home),
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


def agents_workdir(job: Job, box: ContainerSpec) -> str:
    """Where the agent itself goes: the job's folder of work, unless only the container has that."""
    if box.image is None:
        return job.spec.workdir or "~"
    seen = [bind.source for bind in box.binds if bind.source == bind.target]
    return box.workdir if within(box.workdir, seen) else "/"


def caches_of(spec: JobSpec) -> dict[str, str]:
    """Variables that lead caches away from a small home; none where the site has not asked for it, and
    none in a container that does not have that folder."""
    if spec.caches is None:
        return {}
    if spec.image_use is not None and not within(spec.caches, own_roots(spec)):
        return {}
    caches = PurePath(spec.caches)
    return {name: str(caches / below) for name, below in CACHES.items()}


def needs_of(job: Job) -> tuple[AgentNeed, ...]:
    """What has to be on the node before anything starts."""
    spec = job.spec
    needs = [_dataset(each) for each in spec.datasets]
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
            within=own_roots(spec) if use.digest is None else (),
            size_bytes=use.size_bytes,
            mtime_ns=use.mtime_ns,
            sha256=None if use.digest is None else use.digest.removeprefix("sha256:"),
        )
        needs.insert(0, image)
    return tuple(needs)


def _dataset(use: DatasetUse) -> AgentNeed:
    # Its path is the real one: a link in its place could lead anywhere.
    return AgentNeed(
        what=f"the dataset {use.name}:{use.version}",
        path=use.path,
        kind="folder",
        within=(use.path,),
    )


def own_roots(spec: JobSpec) -> tuple[str, ...]:
    """The owner's folders that a container sees, and the project's."""
    return allowed_roots(spec.areas, [spec.home] if spec.home else ())


def _outermost(paths: Iterable[str]) -> list[str]:
    """Each once, and none that lies within another of them."""
    found: list[str] = []
    for path in sorted(paths):
        if not within(path, found):
            found.append(path)
    return found


def _workdir(spec: JobSpec, home: str) -> str:
    workdir = spec.workdir or "~"
    if workdir == "~":
        return home
    path = home.rstrip("/") + workdir[1:] if workdir.startswith("~/") else workdir
    # With ".." only the file system knows where it leads: runtimes refuse that.
    return path if ".." in path.split("/") else "/" + posixpath.normpath(path).lstrip("/")
