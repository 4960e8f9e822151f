"""Settings of projects: ``[projects]`` in ``aitne.toml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aitne.core.models.base import Strict


class ProjectSettings(Strict):
    """Settings for the creation of projects."""

    creation: Literal["admins", "approval", "anyone"] = Field(
        "approval",
        description="`admins`: only administrators create projects; `approval`: every user may "
        "request one and an administrator approves it; `anyone`: every user may create one.",
    )
