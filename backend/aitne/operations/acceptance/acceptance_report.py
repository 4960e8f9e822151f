"""Report of an acceptance test, as HTML and JSON, that can be attached to an issue."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from aitne import __version__
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.check_result import CheckResult, CheckState

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1c2024; background: #fff }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #d9dde2 }
.ok { color: #18794e } .failed { color: #b42318 } .skipped, .unknown { color: #60646c }
@media (prefers-color-scheme: dark) {
  body { color: #edeef0; background: #18191b } td, th { border-color: #363a3f }
  .ok { color: #3dd68c } .failed { color: #ff9592 } .skipped, .unknown { color: #b0b4ba } }
"""


class StepResult(CheckResult):
    """Result of one step of the acceptance test."""

    duration_s: float = Field(ge=0, description="Duration of the step in seconds.")


class AcceptanceReport(Frozen):
    """Results of an acceptance test."""

    release: str = __version__
    as_of: UtcTime
    nodes: int
    """Number of nodes of the site."""
    interrupted: bool
    checks: tuple[StepResult, ...]

    @property
    def has_failed(self) -> bool:
        """True if a step has failed."""
        return any(result.state is CheckState.FAILED for result in self.checks)


def make_report(
    results: Sequence[StepResult], nodes: int, *, interrupted: bool, private: Iterable[str] = ()
) -> AcceptanceReport:
    """Return the report. Each text in ``private``, such as a user or host name, is replaced."""
    checks = tuple(results)
    words = sorted({word for word in private if word}, key=len, reverse=True)
    if words:
        checks = tuple(_anonymize_result(result, words) for result in checks)
    return AcceptanceReport(
        as_of=datetime.now(UTC), nodes=nodes, interrupted=interrupted, checks=checks
    )


def _anonymize_result(result: StepResult, words: Sequence[str]) -> StepResult:
    any_word = re.compile("|".join(rf"(?<![\w.-]){re.escape(word)}(?![\w-])" for word in words))
    numbers = {word: f"name-{number}" for number, word in enumerate(sorted(words), 1)}

    def replace_words(text: str) -> str:
        return any_word.sub(lambda match: numbers[match[0]], text)

    remedy = None if result.remedy is None else replace_words(result.remedy)
    return result.model_copy(update={"message": replace_words(result.message), "remedy": remedy})


def write_report(report: AcceptanceReport, folder: Path) -> list[Path]:
    """Write ``report.json`` and ``report.html`` to the folder, which is created, and return their
    paths. Raises ``OSError``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = json.dumps(json.loads(report.model_dump_json()), indent=2, ensure_ascii=False)
    texts = {"report.json": document + "\n", "report.html": render_page(report)}
    for name, text in texts.items():
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(folder / name)
    return [folder / name for name in texts]


def render_page(report: AcceptanceReport) -> str:
    """Return the report as one HTML page without references to other files."""
    rows = "\n".join(
        f'<tr><td>{html.escape(result.name)}</td><td class="{result.state}">{result.state}</td>'
        f"<td>{result.duration_s:.1f} s</td><td>{html.escape(result.message)}"
        + (f"<br><strong>Remedy:</strong> {html.escape(result.remedy)}" if result.remedy else "")
        + "</td></tr>"
        for result in report.checks
    )
    interrupted = "<p>The test was interrupted.</p>" if report.interrupted else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Acceptance test</title><style>{_STYLE}</style></head><body>"
        f"<h1>Acceptance test</h1><p>Aitne {html.escape(report.release)}, {report.nodes} nodes, "
        f"{report.as_of:%Y-%m-%d %H:%M} UTC</p>{interrupted}"
        "<table><thead><tr><th>Step</th><th>State</th><th>Duration</th><th>Result</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></body></html>\n"
    )
