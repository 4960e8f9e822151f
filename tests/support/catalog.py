"""Builders of images, artifacts and datasets."""

from __future__ import annotations

from typing import Any

from aitne.core.models.dataset import Dataset
from aitne.core.models.image import Artifact, Image, Package
from tests.support.jobs import CREATED_AT


def make_artifact(runtime: str = "apptainer", digit: str = "a", **fields: Any) -> Artifact:
    """Return an artifact of a SIF without a file on disk; `digit` makes its digest."""
    values: dict[str, Any] = {"size_bytes": 42_000_000, "path": "/images/base-1.0.sif"}
    return Artifact(runtime=runtime, digest=f"sha256:{digit * 64}", **(values | fields))


def make_image(name: str = "base", version: str = "1.0", **fields: Any) -> Image:
    """Return an image with one artifact and one package."""
    values: dict[str, Any] = {
        "description": "What everything stands on",
        "artifacts": (make_artifact(),),
        "packages": (Package(name="bash", version="5.2", source="debian"),),
        "created_at": CREATED_AT,
        "created_by": "root",
        "verified_at": CREATED_AT,
    }
    return Image(name=name, version=version, **(values | fields))


def make_dataset(name: str = "div2k", version: str = "1.0", **fields: Any) -> Dataset:
    """Return a dataset of ada that is shared with no project."""
    values: dict[str, Any] = {
        "owner": "ada",
        "path": "/data/div2k",
        "size_bytes": 7_000_000_000,
        "files": 900,
        "manifest": "d" * 64,
        "created_at": CREATED_AT,
    }
    return Dataset(name=name, version=version, **(values | fields))
