"""Catalogue of datasets: their versions, readers and integrity."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import Field

from aitne.core.dataset_manifest import Summary
from aitne.core.errors import (
    Conflict,
    FieldProblem,
    InvalidInput,
    ManifestMissing,
    NotAllowed,
    NotFound,
)
from aitne.core.jobs.template_parameter_check import format_suggestion
from aitne.core.models.dataset import (
    Dataset,
    DatasetFile,
    DatasetUse,
    ManifestDigest,
    split_reference,
)
from aitne.core.models.user import Actor
from aitne.core.ports.catalogue_files import Manifests
from aitne.core.users.permissions import PolicyAction, decide_access, require_permission
from aitne.services.datasets.permitted_dataset_folders import DatasetPaths
from aitne.store.datasets import DatasetStore


class NewDataset(DatasetFile):
    """Dataset version to add to the catalogue; its manifest must have been uploaded before."""

    manifest: ManifestDigest = Field(description="sha256 of the manifest's text.")


class DatasetService:
    """Service for the dataset catalogue: users list, read, add and share datasets."""

    def __init__(
        self,
        store: DatasetStore,
        manifests: Manifests,
        paths: DatasetPaths,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._manifests = manifests
        self._paths = paths
        self._clock = clock

    async def list(self, actor: Actor) -> Sequence[Dataset]:
        """List all versions that the actor may read, by name and newest first.

        An administrator may read all versions. Raises ``NotAllowed`` if the token does not permit
        reading.
        """
        _require_reader(actor)
        seen_by = None if actor.is_admin else actor.name
        return [
            _hide_other_projects(dataset, actor)
            for dataset in await self._store.list_datasets(visible_to=seen_by)
        ]

    async def versions(self, actor: Actor, name: str) -> Sequence[Dataset]:
        """List all versions of a dataset that the actor may read, newest first.

        Raises ``NotFound`` if there is none, and ``NotAllowed`` if the token does not
        permit reading.
        """
        versions = [dataset for dataset in await self.list(actor) if dataset.name == name]
        if not versions:
            raise NotFound("dataset", name)
        return versions

    async def get(self, actor: Actor, name: str, version: str) -> Dataset:
        """Return one version of a dataset.

        Raises ``NotFound``, also if the actor may not read it, and ``NotAllowed`` if the token
        does not permit reading.
        """
        return _hide_other_projects(
            await self._get_permitted_dataset(PolicyAction.DATASET_READ, actor, name, version),
            actor,
        )

    async def manifest(self, actor: Actor, name: str, version: str) -> tuple[Dataset, Path]:
        """Return the dataset and the path of its compressed manifest.

        Raises:
            NotFound: there is no such version that the actor may read.
            NotAllowed: the token does not permit reading.
            Unavailable: the manifest is missing or cannot be read.
        """
        dataset = await self.get(actor, name, version)
        return dataset, await asyncio.to_thread(self._manifests.get_path, dataset.manifest)

    async def receive_manifest(
        self, actor: Actor, digest: str, chunks: AsyncIterator[bytes]
    ) -> Summary:
        """Store the compressed manifest of a dataset; ``add`` must add the dataset within a day.

        Raises:
            NotAllowed: the credential may not add datasets.
            InvalidInput: the upload is not a manifest, does not have the digest ``digest``, or is too
                large.
            RateLimited: too many manifests are uploaded at once.
            Unavailable: the manifest cannot be stored.
        """
        project = actor.user.default_project
        require_permission(PolicyAction.DATASET_ADD, actor, "project", project, project=project)
        used = {version.manifest for version in await self._store.list_datasets(visible_to=None)}
        return await self._manifests.receive(actor.name, digest, chunks, used)

    async def add(self, actor: Actor, new: NewDataset) -> Dataset:
        """Add a version of a dataset to the catalogue; its manifest and its folder must exist.

        Raises:
            NotFound: there is no such project that the actor may see.
            NotAllowed: the actor may not add datasets to the project.
            InvalidInput: the actor may not share the path, or it cannot be read.
            ManifestMissing: the manifest was not uploaded before.
            Conflict: the version exists already, or the name belongs to another owner.
            Unavailable: the folder cannot be read, or the manifest cannot be stored.
        """
        project = new.project or actor.user.default_project
        require_permission(PolicyAction.DATASET_ADD, actor, "project", project, project=project)
        await self._check_free(new, actor.name)
        path = await self._paths.check_path(actor, new.path)
        # Knowing the digest of a manifest, such as from a job's record, does not prove possession.
        read = {version.manifest for version in await self.list(actor)}
        summary = await self._manifests.find_summary(
            actor.name, new.manifest, kept=new.manifest in read
        )
        if summary is None:
            raise ManifestMissing(
                f"The platform has no manifest {new.manifest}. Upload it first: PUT "
                f"/api/v1/manifests/{new.manifest}, as `aitne dataset add` does."
            )
        dataset = Dataset(
            **new.model_dump(include={"name", "version", "description", "licence", "manifest"}),
            owner=actor.name,
            path=path,
            size_bytes=summary.size_bytes,
            files=summary.files,
            projects=(project,),
            created_at=self._clock(),
        )
        await self._manifests.make_permanent(actor.name, new.manifest)
        await self._store.add_dataset(dataset, actor=actor.name)
        return dataset

    async def grant(self, actor: Actor, name: str, version: str, project: str) -> Dataset:
        """Permit all members of a project to read the dataset.

        The actor must be a member of the project or an administrator.

        Raises:
            NotFound: there is no such dataset or project that the actor may see.
            NotAllowed: the actor may not share the dataset.
        """
        await self._get_permitted_dataset(PolicyAction.DATASET_EDIT, actor, name, version)
        require_permission(PolicyAction.PROJECT_READ, actor, "project", project, project=project)
        changed = await self._store.update_dataset(
            name, version, grant=(project,), actor=actor.name
        )
        return _hide_other_projects(changed, actor)

    async def revoke(self, actor: Actor, name: str, version: str, project: str) -> Dataset:
        """Revoke the access of a project's members to the dataset. Running jobs keep their access.

        Raises:
            NotFound: there is no such dataset that the actor may see.
            NotAllowed: the actor neither owns the dataset nor manages the project, and is not an
                administrator.
        """
        dataset = await self._get_permitted_dataset(PolicyAction.DATASET_READ, actor, name, version)
        reads = project if project in dataset.projects else None
        about = {"owner": dataset.owner, "project": reads}
        require_permission(
            PolicyAction.DATASET_REVOKE, actor, "dataset", dataset.reference, **about
        )
        if reads is None:
            raise NotFound("project", f"{project} among those that read {dataset.reference}")
        changed = await self._store.update_dataset(
            name, version, revoke=(project,), actor=actor.name
        )
        return _hide_other_projects(changed, actor)

    async def set_retired(self, actor: Actor, name: str, version: str, *, retired: bool) -> Dataset:
        """Retire the dataset, so that new jobs cannot use it, or offer it again.

        Raises:
            NotFound: there is no such dataset that the actor may see.
            NotAllowed: the actor neither owns the dataset nor is an administrator.
        """
        await self._get_permitted_dataset(PolicyAction.DATASET_EDIT, actor, name, version)
        changed = await self._store.update_dataset(name, version, retired=retired, actor=actor.name)
        return _hide_other_projects(changed, actor)

    async def record_verification(
        self, actor: Actor, name: str, version: str, *, manifest: str, damaged_files: int
    ) -> Dataset:
        """Store the result of a verification, in which a user compared the dataset's files with the
        manifest that has the digest ``manifest``.

        Raises:
            NotFound: there is no such dataset that the actor may see.
            NotAllowed: the credential may not change anything.
            Conflict: the dataset has another manifest.
        """
        dataset = await self._get_permitted_dataset(
            PolicyAction.DATASET_VERIFY, actor, name, version
        )
        if manifest != dataset.manifest:
            raise Conflict(
                f"{dataset.reference} has the manifest {dataset.manifest}, and another one was "
                f"compared: {manifest}. Fetch it again and verify with that."
            )
        changed = await self._store.update_dataset(
            name,
            version,
            verified_at=self._clock(),
            verified_by=actor.name,
            damaged_files=damaged_files,
            actor=actor.name,
        )
        return _hide_other_projects(changed, actor)

    async def resolve(
        self, actor: Actor, references: Sequence[str], project: str
    ) -> Sequence[DatasetUse]:
        """Return the dataset versions that ``references`` select for a job of the actor in the
        project.

        Raises:
            NotAllowed: the token does not permit reading.
            InvalidInput: a reference cannot be resolved; there is one problem for each of these.
        """
        if not references:
            return ()
        visible = await self.list(actor)
        problems: builtins.list[FieldProblem] = []
        chosen_by_name: dict[str, Dataset] = {}
        for index, reference in enumerate(references):
            chosen = _choose_version(visible, actor, reference, project)
            if isinstance(chosen, Dataset) and chosen.name in chosen_by_name:
                chosen = f"{chosen.name} is named twice, but a job can read only one version"
            if isinstance(chosen, Dataset):
                chosen_by_name[chosen.name] = chosen
                continue
            usable_names = ", ".join(_list_usable_references(visible, actor, project)) or "none"
            problems.append(FieldProblem(f"datasets.{index}", chosen, reference, usable_names))
        if problems:
            raise InvalidInput("; ".join(f"{p.field}: {p.message}" for p in problems), problems)
        return [
            DatasetUse(
                name=dataset.name,
                version=dataset.version,
                path=dataset.path,
                manifest=dataset.manifest,
            )
            for dataset in chosen_by_name.values()
        ]

    async def warnings(self, actor: Actor, uses: Sequence[DatasetUse]) -> Sequence[str]:
        """Return a warning for each of the datasets that is damaged, for the plan of a job.

        Damage does not prevent a job from reading a dataset. Raises ``NotAllowed`` if the
        credential may not read datasets.
        """
        named = {(use.name, use.version) for use in uses}
        if not named:
            return ()
        return [
            f"{dataset.reference} is damaged: {_format_path_count(dataset.damaged_files)} differed from its manifest "
            f"when {dataset.verified_by} verified it on {dataset.verified_at:%Y-%m-%d}."
            for dataset in await self.list(actor)
            if (dataset.name, dataset.version) in named and dataset.damaged_files
        ]

    async def _check_free(self, new: NewDataset, owner: str) -> None:
        """Check that the version does not exist yet and the name belongs to no other owner, before
        the files are verified, which takes long.

        Raises:
            Conflict: one of these is the case. Storing the dataset later would fail for the same
                reason.
        """
        versions = [
            version
            for version in await self._store.list_datasets(visible_to=None)
            if version.name == new.name
        ]
        if versions and owner not in {version.owner for version in versions}:
            raise Conflict(
                f"The name {new.name} belongs to another owner's dataset. Choose another name, such as "
                f"{owner}-{new.name}."
            )
        if new.version in {version.version for version in versions}:
            raise Conflict(
                f"There is a dataset {new.name}:{new.version} already, and a version never changes. "
                "Choose another version."
            )

    async def _get_permitted_dataset(
        self, action: PolicyAction, actor: Actor, name: str, version: str
    ) -> Dataset:
        _require_reader(actor)
        dataset = await self._store.get_dataset(name, version)
        common = next((project for project in dataset.projects if project in actor.projects), None)
        require_permission(
            action, actor, "dataset", f"{name}:{version}", owner=dataset.owner, project=common
        )
        return dataset


def _require_reader(actor: Actor) -> None:
    """Check that the credential may read datasets in general; each dataset is checked separately.

    Raises ``NotAllowed`` if it may not.
    """
    may = decide_access(PolicyAction.DATASET_READ, actor, owner=actor.name)
    if not may.allowed:
        raise NotAllowed(may.reason)


def _choose_version(
    visible: Sequence[Dataset], actor: Actor, reference: str, project: str
) -> Dataset | str:
    """Return the version that ``reference`` selects among ``visible``; if there is none, a text
    that explains why, as part of a sentence.
    """
    try:
        name, version = split_reference(reference)
    except ValueError as error:
        return str(error)
    named = [
        dataset
        for dataset in visible
        if dataset.name == name and version in (None, dataset.version)
    ]
    if not named:
        usable = _list_usable_references(visible, actor, project)
        references = usable if version else [full_name.partition(":")[0] for full_name in usable]
        return f"there is no dataset {reference!r} that you may read{format_suggestion(reference, references)}"
    granted = [dataset for dataset in named if _can_use_dataset(dataset, actor, project)]
    if not granted:
        return (
            f"{reference} is not granted to the project {project}; ask its owner {named[0].owner}: "
            f"`aitne dataset grant {named[0].reference} {project}`"
        )
    offered = [dataset for dataset in granted if not dataset.retired]
    return offered[0] if offered else f"{reference} is retired: new jobs may not name it"


def _can_use_dataset(dataset: Dataset, actor: Actor, project: str) -> bool:
    return dataset.owner == actor.name or project in dataset.projects


def _list_usable_references(
    visible: Sequence[Dataset], actor: Actor, project: str
) -> Sequence[str]:
    return [
        dataset.reference
        for dataset in visible
        if not dataset.retired and _can_use_dataset(dataset, actor, project)
    ]


def _format_path_count(count: int) -> str:
    """Return a text such as ``3 paths``. It counts paths, not files, because missing and additional
    paths count, too.
    """
    return "1 path" if count == 1 else f"{count} paths"


def _hide_other_projects(dataset: Dataset, actor: Actor) -> Dataset:
    """Return a copy of the dataset that contains the names of only those projects that the actor
    may see.
    """
    if actor.is_admin or actor.name == dataset.owner:
        return dataset
    visible_projects = tuple(name for name in dataset.projects if name in actor.projects)
    return dataset.model_copy(update={"projects": visible_projects})
