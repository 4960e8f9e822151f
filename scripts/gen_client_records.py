"""Generate the records of the Python client from the OpenAPI document.

Prints one module of ``backend/aitne/client``: ``records``, ``admin_records`` or
``project_records``, as the argument says.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from formatting import format_source

ROOT = Path(__file__).resolve().parent.parent
OPENAPI = ROOT / "frontend" / "openapi.json"

MODULES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "records": (
        "Records of jobs, nodes, templates, events and users.",
        {
            "GpuRecord": "GpuRequest",
            "ResourcesRecord": "Resources",
            "StageRecord": "Stage",
            "Job": "JobView",
            "JobSpecRecord": "JobSpec",
            "Plan": "Plan",
            "Event": "Event",
            "ParameterRecord": "Parameter",
            "Template": "Template",
            "TemplateProblemRecord": "TemplateProblem",
            "GpuCountRecord": "GpuCount",
            "Node": "Node",
            "QueuePositionRecord": "QueuePosition",
            "AdviceRecord": "Advice",
            "LogLineRecord": "LogLine",
            "RemedyRecord": "Remedy",
            "FailureRecord": "Failure",
            "GpuSumRecord": "GpuSum",
            "PartitionRecord": "PartitionSummary",
            "Token": "TokenSecret",
            "User": "User",
            "UserListItemRecord": "UserListItem",
            "PlatformInfoRecord": "PlatformInfo",
            "CurrentUserRecord": "Me",
            "LoginLinkRecord": "LoginLink",
        },
    ),
    "admin_records": (
        "Records for administrators (audit log, health, settings, nodes), announcements, maintenance.",
        {
            "AuditEntryRecord": "AuditEntry",
            "AuditCheckRecord": "AuditCheck",
            "AnnouncementRecord": "AnnouncementView",
            "MaintenanceRecord": "MaintenanceView",
            "NodeEventRecord": "NodeEvent",
            "PartHealthRecord": "PartHealth",
            "HealthRecord": "Health",
            "SettingRecord": "SettingView",
        },
    ),
    "project_records": (
        "Records of projects, their usage, and the comparison with Slurm's accounts.",
        {
            "BudgetRecord": "Budget",
            "ExtensionRequestRecord": "ExtensionRequest",
            "ProjectRecord": "Project",
            "MembershipRecord": "Member",
            "InvitationRecord": "Invitation",
            "InvitationLinkRecord": "InvitationLink",
            "InvitationPreviewRecord": "InvitationPreview",
            "BudgetShareRecord": "Share",
            "BalanceRecord": "Balance",
            "WaitingJobRecord": "WaitingJob",
            "LimitUseRecord": "LimitUse",
            "ProjectLimitsRecord": "ProjectLimits",
            "UsageRowRecord": "UsageRow",
            "UsageReportRecord": "UsageReport",
            "UserWaitRecord": "UserWait",
            "MonthSumRecord": "MonthSum",
            "ProjectReportRecord": "ProjectReport",
            "SyncDifferenceRecord": "Difference",
            "SyncReportRecord": "SyncReport",
        },
    ),
}
"""For each module its summary, and for each record the schema that it follows.

A record precedes those that contain it.
"""
ALSO = {"MeUser": "User", "Membership": "MembershipRecord"}
"""Further schemas, whose objects are records of a wider schema; fields that they lack are None."""
BASES = {"Job": "JobBase", "GpuRecord": "GpuBase"}
"""Base classes with methods, in ``aitne.client.record_base``; all others inherit from ``Record``."""

HEAD = '''\
"""{summary} Made by ``make gen``; do not edit."""

from __future__ import annotations

from datetime import datetime

from aitne.client.record_base import {bases}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
'''
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


class Writer:
    """Writes the records of one module.

    Args:
        schemas: the schemas of the OpenAPI document, by name.
        records: the name of the schema of each record.
    """

    def __init__(self, schemas: Mapping[str, Any], records: Mapping[str, str]) -> None:
        self._schemas = schemas
        self._records = records
        self._record_of = {schema: record for record, schema in records.items()} | {
            schema: record for schema, record in ALSO.items() if record in records
        }

    def write(self) -> Iterator[str]:
        """Yield the source of each class."""
        for record, name in self._records.items():
            schema = self._schemas[name]
            properties = schema["properties"]
            nested = {field: self._find_nested_record(each) for field, each in properties.items()}
            keywords = [f"{field}={made}" for field, made in nested.items() if made]
            lines = [f"class {record}({', '.join([BASES.get(record, 'Record'), *keywords])}):"]
            lines += [textwrap.indent(_format_docstring(schema["description"]), "    "), ""]
            for field, each in properties.items():
                note = "  # deprecated" if each.get("deprecated") else ""
                lines.append(f"    {field}: {self._make_annotation(each)}{note}")
            yield "\n".join(lines) + "\n"

    def _find_nested_record(self, schema: Mapping[str, Any]) -> str | None:
        """Return the record of a field's value or of its elements; None for plain JSON."""
        inner, _ = _without_null(schema)
        inner = inner.get("items", inner)
        return self._record_of.get(inner.get("$ref", "").rpartition("/")[2])

    def _make_annotation(self, schema: Mapping[str, Any]) -> str:
        inner, nullable = _without_null(schema)
        text = self._make_plain_annotation(inner)
        return f"{text} | None" if nullable and text != "Any" else text

    def _make_plain_annotation(self, schema: Mapping[str, Any]) -> str:
        if reference := schema.get("$ref", "").rpartition("/")[2]:
            target = self._schemas[reference]
            return self._record_of.get(reference) or self._make_plain_annotation(target)
        kind = schema.get("type")
        if schema.get("format") == "date-time":
            return "datetime"
        if kind == "array":
            return f"list[{self._make_annotation(schema.get('items', {}))}]"
        if kind == "object":
            values = schema.get("additionalProperties")
            inner = self._make_annotation(values) if isinstance(values, dict) else "Any"
            return f"dict[str, {inner}]"
        return SIMPLE.get(str(kind), "Any")


def _without_null(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    choices = schema.get("anyOf", [schema])
    others = [choice for choice in choices if choice.get("type") != "null"]
    return (others[0] if len(others) == 1 else {}), len(others) < len(choices)


def _format_docstring(description: str) -> str:
    text = re.sub(r"(?<!`)`(?!`)", "``", description).replace("null:", "None:")
    paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
    lines = "\n\n".join(textwrap.fill(each, 90) for each in paragraphs)
    return f'"""{lines}\n"""' if "\n" in lines else f'"""{lines}"""'


def render_module(module: str) -> str:
    """Return the source of a module, before formatting."""
    summary, records = MODULES[module]
    schemas = json.loads(OPENAPI.read_text())["components"]["schemas"]
    bases = sorted({BASES.get(record, "Record") for record in records})
    head = HEAD.format(summary=summary, bases=", ".join(bases))
    return "\n\n".join([head, *Writer(schemas, records).write()])


def main() -> None:
    """Print the module as the formatter leaves it."""
    module = sys.argv[1]
    path = ROOT / "backend" / "aitne" / "client" / f"{module}.py"
    sys.stdout.write(format_source(render_module(module), path))


if __name__ == "__main__":
    main()
