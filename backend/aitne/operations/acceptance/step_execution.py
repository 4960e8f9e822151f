"""Execution of the steps, one after the other, with a cleanup after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from aitne.core.errors import AitneError
from aitne.core.models.check_result import CheckState
from aitne.operations.acceptance import hardware_steps
from aitne.operations.acceptance.acceptance_report import StepResult
from aitne.operations.acceptance.acceptance_steps import STEPS, AcceptanceStep
from aitne.operations.acceptance.site_client import AcceptanceSite, StepFailed, StepSkipped

_MODULES = (hardware_steps,)
"""Importing it registers its steps."""
_REMEDY = "Run `aitne admin doctor`, and see `aitne show` and the log of the job."


def run_steps(
    site: AcceptanceSite, progress: Callable[[str], None], results: list[StepResult]
) -> None:
    """Run all steps and append their results to ``results``, which is therefore complete up to an
    interruption. The jobs of a step that have not ended are cancelled, also then.
    """
    for step in STEPS.values():
        progress(f"{step.name}: {step.summary}")
        began = time.monotonic()
        try:
            state, message, remedy = _run_step(step, site)
        finally:
            for problem in site.clean_up():
                progress(problem)
        results.append(
            StepResult(
                name=step.name,
                state=state,
                message=message,
                remedy=remedy,
                duration_s=round(time.monotonic() - began, 1),
            )
        )


def _run_step(step: AcceptanceStep, site: AcceptanceSite) -> tuple[CheckState, str, str | None]:
    if step.hardware is not None and not getattr(site, step.hardware):
        return CheckState.SKIPPED, f"It was not asked for: pass --{step.hardware}.", None
    try:
        return CheckState.OK, step.function(site), None
    except StepSkipped as reason:
        return CheckState.SKIPPED, str(reason), None
    except StepFailed as error:
        return CheckState.FAILED, str(error), error.remedy
    except AitneError as error:
        return CheckState.FAILED, error.message, _REMEDY


def list_private_words(site: AcceptanceSite) -> Iterator[str]:
    """Yield the names that an anonymous report does not contain: of the user, the portal and the
    nodes.
    """
    me = site.client.me().user
    yield me.name
    yield me.default_project
    yield urlsplit(site.client.platform.url).hostname or ""
    for node in site.client.nodes.list():
        yield node.name
