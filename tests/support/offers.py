"""The catalogue's services with the store of a test and the files of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from aitne.adapters.dataset_manifest_store import ManifestFolder
from aitne.adapters.image_file_check import ImagesFolder
from aitne.adapters.tree_folder import TreeFolder
from aitne.adapters.unix_account_mapping import OwnAccount
from aitne.adapters.user_folder_operations import OwnUserFolders
from aitne.bootstrap.adapters import make_storages
from aitne.core.ports.runtime import Runtime
from aitne.core.settings import Settings
from aitne.services.datasets.datasets import DatasetService
from aitne.services.datasets.permitted_dataset_folders import DatasetPaths
from aitne.services.images.image_chooser import ImageChooser
from aitne.services.images.images import ImageService
from aitne.services.jobs.job_input_availability import AvailabilityService
from aitne.services.jobs.uploaded_trees import TreeService
from aitne.services.storage_areas import StorageService
from aitne.store import Store


def dataset_service(
    store: Store, settings: Settings, clock: Callable[[], datetime]
) -> DatasetService:
    """Return a dataset service in which all files belong to the process's own account."""
    places = OwnUserFolders(settings.storage, make_storages(settings.storage))
    paths = DatasetPaths(settings.storage, OwnAccount(settings), places)
    return DatasetService(store, ManifestFolder(settings.manifests_dir), paths, clock)


def storage_service(settings: Settings, clock: Callable[[], datetime]) -> StorageService:
    """Return a storage service with the folders of the process's own account."""
    places = OwnUserFolders(settings.storage, make_storages(settings.storage))
    return StorageService(settings.storage, OwnAccount(settings), places, clock, fresh_s=0)


def tree_service(store: Store, settings: Settings, clock: Callable[[], datetime]) -> TreeService:
    """Return a tree service with the platform's own folder."""
    folder = TreeFolder(settings.trees_dir, settings.trees, now=lambda: clock().timestamp())
    return TreeService(store, folder, settings.trees, clock)


def offers(
    store: Store,
    settings: Settings,
    runtimes: Mapping[str, Runtime],
    clock: Callable[[], datetime],
) -> AvailabilityService:
    """Return the service that resolves the images, datasets and storage of jobs."""
    return AvailabilityService(
        ImageService(store, ImagesFolder(settings.images_dir), clock),
        dataset_service(store, settings, clock),
        storage_service(settings, clock),
        OwnUserFolders(settings.storage, make_storages(settings.storage)),
        ImageChooser(runtimes, settings.containers, remote=settings.capabilities.remote),
        tree_service(store, settings, clock),
        settings,
    )
