"""The portal translates what the platform says: it must know the sentences as they are said here."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from aitne.adapters.schedulers._slurm import pending_reasons
from aitne.adapters.topologies import _bounded_files, slurm_file
from aitne.adapters.topologies import slurm as shown_topology
from aitne.core.jobs import error_patterns
from aitne.core.jobs.failure_explanation import explain_failure
from aitne.core.jobs.progress_stages import _TITLES
from aitne.core.jobs.usage_sample_values import DRAWN
from aitne.core.settings import Settings
from aitne.local_system.settings_report import describe_settings
from aitne.services.monitoring import health_checks, scheduler_health
from aitne_train.topology import slurm, switch_tree
from tests.support.jobs import make_job

I18N = Path(__file__).resolve().parents[2] / "frontend" / "src" / "i18n"


@pytest.fixture(scope="module")
def known() -> list[str]:
    """The sentences, numbers and names of which are ``{{placeholders}}``."""
    sentences: list[str] = json.loads((I18N / "server.json").read_text("utf-8"))
    return sentences


def test_every_reason_of_slurm_is_known(known: list[str]) -> None:
    assert set(pending_reasons._PLAIN.values()) <= set(known)


def test_every_explanation_of_an_error_is_known(known: list[str]) -> None:
    patterns = (*error_patterns._EXCEPTIONS, *error_patterns._MESSAGES)
    texts = {entry.text for entry in patterns if entry.text is not None}
    assert {text.replace("{name}", "{{name}}") for text in texts} <= set(known)


def test_every_description_of_a_setting_is_known(known: list[str]) -> None:
    described = {setting.description for setting in describe_settings(Settings.model_construct())}
    assert described - set(known) == set(), "add it to server.json, and its German to de.json"


def test_every_title_of_a_measured_value_is_known(known: list[str]) -> None:
    titles = {value.title for value in DRAWN}
    assert titles - set(known) == set(), "add it to server.json, and its German to de.json"


def test_every_result_and_advice_of_a_health_check_is_known(known: list[str]) -> None:
    calls = (
        node
        for module in (health_checks, scheduler_health)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "HealthCheckResult"
    )
    texts = {arg.value for call in calls for arg in call.args if isinstance(arg, ast.Constant)}
    assert {text for text in texts if isinstance(text, str)} - set(known) == set()


@pytest.mark.parametrize("module", [switch_tree, slurm, _bounded_files, slurm_file, shown_topology])
def test_every_problem_of_a_switch_topology_is_known(known: list[str], module: ModuleType) -> None:
    sentences = [each for each in known if "{{problem}}" not in each]
    patterns = [".+?".join(map(re.escape, re.split(r"\{\{\w+\}\}", each))) for each in sentences]
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("TopologyError", "error")
        and len(node.args) == 2
        and not isinstance(node.args[0], ast.Name)
    ]
    problems = [
        f"{problem}. {remedy}"
        for call in calls
        for problem in _texts(call.args[0], module)
        for remedy in _texts(call.args[1], module)
    ]
    assert problems
    assert [
        each for each in problems if not any(re.fullmatch(pattern, each) for pattern in patterns)
    ] == []


def _texts(node: ast.expr, module: ModuleType) -> list[str]:
    """The texts that the expression may have, with X for each value."""
    match node:
        case ast.Constant():
            return [str(node.value)]
        case ast.JoinedStr():
            return ["".join(_texts(part, module)[0] for part in node.values)]
        case ast.IfExp():
            return [*_texts(node.body, module), *_texts(node.orelse, module)]
        case ast.Name() if hasattr(module, node.id):
            return [getattr(module, node.id)]
        case ast.Name(id="remedy"):
            return [slurm._EXAMPLE]
    return ["X"]


def test_every_stage_is_known_to_the_portal() -> None:
    german = json.loads((I18N / "de.json").read_text("utf-8"))
    assert {title for stages in _TITLES.values() for _, title in stages} <= set(german)


@pytest.mark.parametrize(
    "said",
    [
        pending_reasons.format_pending_reason("Dependency", "afterok:17(unfulfilled)"),
        "Waits behind 2 jobs.",
        "The program ended with exit code 1.",
        *(
            explain_failure(make_job(state="FAILED", reason="failed", exit_code=code), ()).text  # type: ignore[union-attr]
            for code in (1, 126, 127, 134, 137, 139, 143)
        ),
        explain_failure(make_job(state="OUT_OF_MEMORY"), ()).text,  # type: ignore[union-attr]
        explain_failure(make_job(state="TIMED_OUT"), ()).text,  # type: ignore[union-attr]
    ],
)
def test_sentences_with_numbers_are_known(known: list[str], said: str) -> None:
    patterns = (".+?".join(map(re.escape, re.split(r"\{\{\w+\}\}", each))) for each in known)
    assert any(re.fullmatch(pattern, said) for pattern in patterns)
