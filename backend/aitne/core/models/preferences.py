"""Preferences of a user in the portal: a model for each key. A new key is a new entry of
``MODELS``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, WrapValidator, model_validator

from aitne.core.models.base import Flag, Strict, UtcTime, validate_as_stored
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSearch, JobSort


class PortalPreferences(Strict):
    """Language and appearance of the portal."""

    language: Literal["en", "de"] | None = Field(
        None, description="null: the language of the browser."
    )
    theme: Literal["auto", "light", "dark"] = Field(
        "auto", description="auto: the theme of the browser."
    )


ColumnName = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,39}$")]


class JobTable(Strict):
    """Settings of a table of jobs: its columns, order and search."""

    columns: list[ColumnName] = Field(
        [], max_length=40, description="Columns in this order; empty: those of a new table."
    )
    sort: JobSort = JobSort.CREATED
    """Key by which the table is sorted."""
    descending: Flag = True
    """True: sorted in descending order; False: in ascending order."""
    search: JobSearch = Field(JobSearch(), description="Filter of the jobs that it shows.")


class SavedView(JobTable):
    """Table of jobs that a user has saved under a name."""

    name: str = Field(min_length=1, max_length=60, examples=["Failed this week"])


class JobViews(Strict):
    """Saved views of the jobs page, and the columns of the table when no view is selected."""

    columns: list[ColumnName] = Field(
        [], max_length=40, description="Columns of the table; empty: the default ones."
    )
    views: list[SavedView] = Field([], max_length=50)
    """Saved views, in the order in which they are shown."""


StoredJobFile = Annotated[JobFile, WrapValidator(validate_as_stored)]
"""Job file as the platform returned it, where bytes and seconds are numbers."""


class Launch(Strict):
    """A job file that the user has launched, so that it can be launched again."""

    title: str = Field("", max_length=200, description="Title under which it is offered.")
    file: StoredJobFile = Field(description="Job file that was submitted.")
    launched_at: UtcTime
    """Time at which the job was created."""


class LastLaunch(Strict):
    """The user's latest launches, newest first."""

    items: list[Launch] = Field([], max_length=20)
    """Job files that were launched, newest first."""


TemplateName = Annotated[str, Field(min_length=1, max_length=100)]


class Preset(Strict):
    """Values of a template's launch form that a user has saved under a name."""

    name: str = Field(min_length=1, max_length=60, examples=["Two GPUs overnight"])
    file: StoredJobFile = Field(description="Job file of these values; it names the template.")


class TemplatePreferences(Strict):
    """The templates that a user has pinned, and the presets of their launch forms."""

    pinned: list[TemplateName] = Field(
        [], max_length=50, description="Templates that are shown first."
    )
    presets: list[Preset] = Field(
        [], max_length=50, description="In the order in which they are shown."
    )

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        seen: set[tuple[str, str]] = set()
        for preset in self.presets:
            template = preset.file.template
            if template is None:
                raise ValueError(f"the preset {preset.name} names no template")
            if (template, preset.name) in seen:
                raise ValueError(f"the template {template} has two presets {preset.name}")
            seen.add((template, preset.name))
        return self


MODELS: dict[str, type[Strict]] = {
    "portal": PortalPreferences,
    "job_views": JobViews,
    "last_launch": LastLaunch,
    "templates": TemplatePreferences,
}
"""Model of each key, with the defaults for users who have stored nothing."""
