"""Images, datasets and storage that one job can use, read before its job file is resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aitne.core.errors import FieldProblem, InvalidInput, NotAllowed, Unavailable
from aitne.core.models.image import BARE
from aitne.core.models.job import JobSpec
from aitne.core.models.storage_area import Area, PathFacts
from aitne.core.models.user import Actor
from aitne.core.ports.storage_system import UserFolders
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.settings import Settings
from aitne.core.storage.areas import cache_folder, is_within, list_areas, make_area_owner
from aitne.services.datasets.datasets import DatasetService
from aitne.services.images.image_chooser import ImageChooser, ImageRequest
from aitne.services.images.images import ImageService
from aitne.services.jobs.job_containers import list_own_folders
from aitne.services.jobs.job_file_resolution import AvailableResources
from aitne.services.jobs.path_existence_checks import check_paths, named_paths
from aitne.services.jobs.problems import Problems
from aitne.services.jobs.uploaded_trees import TreeService
from aitne.services.storage_areas import StorageService


class AvailabilityService:
    """Component that determines which images, datasets and folders a job can use. It reads the
    catalogue, then checks the files with the permissions of the job's Unix account.
    """

    def __init__(
        self,
        images: ImageService,
        datasets: DatasetService,
        storage: StorageService,
        places: UserFolders,
        chooser: ImageChooser,
        trees: TreeService,
        settings: Settings,
    ) -> None:
        self.chooser = chooser
        self._trees = trees
        self._storage = storage
        self._images = images
        self._datasets = datasets
        self._places = places
        self._settings = settings

    async def get_available(
        self,
        actor: Actor,
        project: str,
        account: UnixAccount,
        *,
        reference: str,
        datasets: Sequence[str],
        tree: str | None,
    ) -> AvailableResources:
        """Return the images, datasets, folders and uploaded tree that are available to the job.
        Datasets and trees that are not available are added to the ``problems`` of the result.

        Args:
            project: name of the job's project.
            account: Unix account that the job is to run as.
            reference: name of the job's image.
            datasets: names of datasets, each with or without a version.
            tree: digest of the uploaded tree; None: the job has none.

        Raises:
            NotAllowed: the token does not permit reading.
        """
        named = reference != BARE and not reference.startswith("/")
        offer = replace(
            await self._prepare_folders(actor, account, project, contained=reference != BARE),
            reference=reference,
            images=await self._images.list_visible(actor) if named else (),
        )
        if tree is not None:
            use, missing = await self._trees.find(actor.name, tree)
            offer = replace(offer, tree=use, problems=tuple(missing))
        return await self._with_datasets(offer, actor, datasets, project)

    async def update_spec(
        self, actor: Actor, spec: JobSpec, account: UnixAccount
    ) -> tuple[JobSpec, Problems]:
        """Update a specification that was accepted earlier, for a job that runs the same program
        again.

        The image and datasets stay the same; their paths change if folders have moved. Those that
        no longer exist are among the returned problems.

        Raises:
            NotAllowed: the token does not permit reading.
        """
        problems = Problems()
        use = spec.image_use
        offer = await self._prepare_folders(actor, account, spec.project, contained=use is not None)
        if use is not None:
            request = ImageRequest(
                reference=use.reference,
                runtime=spec.runtime,
                project=spec.project,
                apps=tuple(app.name for app in spec.apps),
            )
            named = () if use.digest is None else await self._images.list_visible(actor)
            choice = self.chooser.choose(request, named)
            if choice.problem is not None:
                problems.extend([choice.problem])
            elif choice.use is not None and choice.use.digest != use.digest:
                problems.add(
                    "image",
                    "there is another image of that name and version now",
                    use.reference,
                    "a new job",
                )
            use = choice.use
        references = [f"{dataset.name}:{dataset.version}" for dataset in spec.datasets]
        offer = await self._with_datasets(offer, actor, references, spec.project)
        problems.extend(offer.problems)
        if spec.tree is not None:
            problems.extend((await self._trees.find(actor.name, spec.tree.digest))[1])
        for before, now in zip(spec.datasets, offer.datasets, strict=False):
            if before.manifest != now.manifest:
                problems.add(
                    "datasets",
                    f"the data of {now.name}:{now.version} has changed",
                    now.name,
                    "a new job",
                )
        renewed = {
            "image_use": use,
            "datasets": offer.datasets,
            "home": offer.home,
            "areas": offer.areas,
            "caches": offer.caches,
        }
        return spec.model_copy(update=renewed), problems

    async def _prepare_folders(
        self, actor: Actor, account: UnixAccount, project: str, *, contained: bool
    ) -> AvailableResources:
        """Create missing storage folders of the user and the project, and return the folders that
        the job can use.

        Args:
            contained: whether the job runs in a container. If so, folders that cannot be mounted
                into containers are omitted; a note for the user names each of them.
        """
        storage = self._settings.storage
        owner = make_area_owner(account)
        home, *others = list_areas(storage, owner, [project])
        areas = tuple(others)
        notes: tuple[str, ...] = ()
        if storage.areas:
            notes = await self._storage.create_missing_areas(actor, project)
        if areas and contained:
            areas, left_out = await self._select_usable_areas(account, areas)
            notes = (*notes, *left_out)
        return AvailableResources(
            home=home.path, areas=areas, caches=cache_folder(storage, owner), notes=notes
        )

    async def _select_usable_areas(
        self, account: UnixAccount, areas: Sequence[Area]
    ) -> tuple[tuple[Area, ...], list[str]]:
        """Return the areas that can be mounted into a container, and notes for the user about the
        other areas.

        An area whose file system does not answer is included; the agent checks it again on the
        node.
        """
        try:
            facts_of_areas = await self._places.read_paths(
                account.name, [area.path for area in areas]
            )
        except (Unavailable, NotAllowed):
            return tuple(areas), []
        of_use, left_out = [], []
        for area, facts in zip(areas, facts_of_areas, strict=True):
            if facts.is_missing or (facts.kind is not None and not _is_accessible_folder(facts)):
                reason = facts.problem or "it is not a folder"
                left_out.append(f"The container does not get {area.name}: {area.path}: {reason}.")
            else:
                of_use.append(area)
        return tuple(of_use), left_out

    async def _with_datasets(
        self, offer: AvailableResources, actor: Actor, references: Sequence[str], project: str
    ) -> AvailableResources:
        if not references:
            return offer
        try:
            uses = await self._datasets.resolve(actor, references, project)
        except InvalidInput as error:
            return replace(offer, problems=(*offer.problems, *error.problems))
        return replace(offer, datasets=tuple(uses))

    async def check_files(
        self, actor: Actor, spec: JobSpec, account: UnixAccount
    ) -> tuple[str, ...]:
        """Check with the permissions of the job's account that the files of its image and datasets
        can be read, and that the folders and files that the job names exist.

        Returns:
            Notes for the user, as sentences.

        Raises:
            InvalidInput: something is missing, unreadable or differs from the catalogue.
        """
        paths = (
            [] if spec.image_use is None or spec.image_use.path is None else [spec.image_use.path]
        )
        paths += [dataset.path for dataset in spec.datasets]
        paths += [named.path for named in named_paths(spec)]
        if not paths:
            return ()
        try:
            facts = await self._places.read_paths(account.name, paths)
        except (Unavailable, NotAllowed) as silent:
            return (f"The files of the job could not be checked: {silent.message}",)
        facts_by_path = {entry.path: entry for entry in facts}
        wrong, notes = check_paths(spec, facts_by_path, remote=self._settings.capabilities.remote)
        problems = [
            *self._list_image_problems(spec, facts_by_path),
            *_list_dataset_problems(spec, facts_by_path),
            *wrong,
        ]
        if problems:
            raise InvalidInput(
                "; ".join(f"{problem.field}: {problem.message}" for problem in problems), problems
            )
        return (*notes, *await self._datasets.warnings(actor, spec.datasets))

    def _list_image_problems(
        self, spec: JobSpec, facts_by_path: dict[str, PathFacts]
    ) -> Sequence[FieldProblem]:
        use = spec.image_use
        if use is None or use.path is None:
            return ()
        facts = facts_by_path[use.path]
        name = use.reference
        if facts.kind is None or not facts.readable:
            reason = facts.problem or "it does not exist"
            return (FieldProblem("image", f"{use.path} cannot be read: {reason}", name),)
        if use.digest is None:
            if facts.kind != "file":
                return (
                    FieldProblem(
                        "image",
                        f"{use.path} is not a file, and a user's own image must be one",
                        name,
                        "an image file, such as `apptainer build` makes",
                    ),
                )
            roots = list_own_folders(spec)
            if not is_within(facts.real_path or "", roots):
                return (
                    FieldProblem(
                        "image",
                        f"{facts.real_path} lies outside the folders that you may run images from",
                        name,
                        f"a file below {', '.join(roots)}",
                    ),
                )
        elif facts.kind != "file" or facts.size_bytes != use.size_bytes:
            return (
                FieldProblem(
                    "image",
                    f"{use.path} differs from the catalogue: {use.size_bytes} bytes were "
                    f"registered, {facts.size_bytes} were found. Ask an administrator to run "
                    f"`aitne admin image verify {name}`",
                    name,
                ),
            )
        return ()


def _is_accessible_folder(facts: PathFacts) -> bool:
    return facts.kind == "folder" and facts.readable


def _list_dataset_problems(
    spec: JobSpec, facts_by_path: dict[str, PathFacts]
) -> Sequence[FieldProblem]:
    problems = []
    for index, dataset in enumerate(spec.datasets):
        facts = facts_by_path[dataset.path]
        if facts.kind == "folder" and facts.readable and facts.real_path == dataset.path:
            continue
        reason = facts.problem or (
            f"it now leads to {facts.real_path}" if facts.kind else "it does not exist"
        )
        problems.append(
            FieldProblem(
                f"datasets.{index}",
                f"{dataset.path} cannot be read as {dataset.name}: {reason}. Is its file system mounted, "
                "and may your account read it?",
                f"{dataset.name}:{dataset.version}",
            )
        )
    return problems
