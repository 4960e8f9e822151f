"""Settings of projects: ``[projects]`` in ``aitne.toml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aitne.core.models.base import Strict


class ProjectSettings(Strict):
    """Settings for the creation of projects."""

    creation: Literal["admins", "approval", "anyone"] = Field(
        "approval",
        description="`admins`: only they make projects; `approval`: everybody may ask for one and an "
        "administrator approves it; `anyone`: everybody makes them.",
    )
