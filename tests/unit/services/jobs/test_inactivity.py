"""The inactivity limit of a session within the bounds of template and site."""

from __future__ import annotations

import pytest

from aitne.core.models.cluster import Cluster
from aitne.core.models.job_file import JobFile
from aitne.core.models.template import Template
from aitne.core.notifications.settings import IdleSettings
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings
from aitne.services.images.image_chooser import ImageChooser
from aitne.services.jobs.job_field_checks import check_inactivity
from aitne.services.jobs.job_file_resolution import AvailableResources, resolve_offer
from aitne.services.jobs.problems import Problems
from aitne.services.jobs.template_catalog import TemplateCatalog

H = 3_600


def template(**limit: str) -> Template:
    return Template.model_validate(
        {
            "name": "lab",
            "version": "1.0.0",
            "title": "Lab",
            "type": "session",
            "apps": [{"name": "lab", "title": "Lab"}],
            "resources": {"inactivity_duration": limit},
        }
    )


@pytest.mark.parametrize(
    ("asked", "offered", "site", "expected"),
    [
        (None, {}, {}, None),
        (None, {}, {"inactivity_duration": "2h"}, 2 * H),
        (None, {"default": "1h"}, {"inactivity_duration": "2h"}, H),
        (None, {}, {"max_inactivity_duration": "4h"}, 4 * H),
        (None, {"default": "8h"}, {"max_inactivity_duration": "4h"}, 4 * H),
        ("30m", {"max": "1h"}, {}, H // 2),
        ("2h", {"max": "1h"}, {}, "refused"),
        ("off", {}, {"inactivity_duration": "2h"}, None),
        ("off", {}, {"max_inactivity_duration": "4h"}, "refused"),
    ],
)
def test_inactivity_duration_follows_job_template_and_site(
    asked: str | None, offered: dict[str, str], site: dict[str, str], expected: int | str | None
) -> None:
    given = {} if asked is None else {"inactivity_duration": asked}
    file = JobFile.model_validate({"type": "session", **given})
    offer = resolve_offer(
        file,
        template(**offered),
        AvailableResources(),
        project="vision",
        templates=TemplateCatalog([]),
        chooser=ImageChooser({}, ContainerSettings(), remote=False),
        settings=Settings(idle=IdleSettings.model_validate(site)),
        cluster=Cluster(),
    )
    problems = Problems()
    check_inactivity(file, offer, problems)
    if expected == "refused":
        assert [each.field for each in problems.found] == ["inactivity_duration"]
    else:
        assert (offer.inactivity_duration_s, problems.found) == (expected, [])
