"""Facts about BeeGFS file systems, from their own tools: ``beegfs-ctl`` of 7.x, ``beegfs`` of 8.x.

It is written for documented output (``tests/assets/beegfs``) and has never run on a real BeeGFS.
"""

from __future__ import annotations

from collections.abc import Sequence

from aitne.adapters.storage._beegfs_parser import (
    PoolQuota,
    parse_quota_7,
    parse_quota_8,
    parse_striping,
    parse_targets_7,
    parse_targets_8,
    select_quota,
)
from aitne.adapters.storage._folder_facts import make_absent_facts, read_folder_facts
from aitne.adapters.storage._mounts import Mount, Mounts
from aitne.adapters.storage._tools import StorageTools, ToolFailed
from aitne.core.models.storage_area import Area, AreaFacts, StorageTarget

_NEW, _OLD = "beegfs", "beegfs-ctl"


class BeegfsStorage:
    """Implementation of ``core.ports.storage_system.Storage`` for BeeGFS."""

    name = "beegfs"

    def __init__(self, mounts: Mounts | None = None, tools: StorageTools | None = None) -> None:
        self._mounts = mounts or Mounts()
        self._tools = tools or StorageTools()

    def read_area(self, area: Area, *, user: str) -> AreaFacts:
        """Return size, quota and other current facts of the area; errors of the file system are
        reported in ``problem``, not raised.
        """
        area_facts, mount = read_folder_facts(area, self._mounts)
        if not area_facts.available or mount is None:
            return area_facts
        if mount.kind != "beegfs":
            reason = (
                f"{area.path} lies on {mount.kind} and not on BeeGFS, which is not mounted there."
            )
            return make_absent_facts(area, reason, mount.kind)
        if self._tools.has_program(_NEW):
            return self._query_8(area_facts, user)
        if self._tools.has_program(_OLD):
            return self._query_7(area_facts, mount, user)
        return _add_problem(
            area_facts,
            [ToolFailed(f"neither {_NEW} (8.x) nor {_OLD} (7.x) is installed here")],
        )

    def _query_7(self, area_facts: AreaFacts, mount: Mount, user: str) -> AreaFacts:
        # Not --mount to name the file system: --getquota of 7.4.7 fails with it.
        config = mount.option("cfgFile")
        ctl = [_OLD] if config is None else [_OLD, f"--cfgFile={config}"]
        project = area_facts.area.project
        commands = [
            [*ctl, "--getentryinfo", area_facts.area.path],
            [*ctl, "--listtargets", "--nodetype=storage", "--state", "--spaceinfo"],
            [*ctl, "--getquota", "--csv", "--uid", user],
        ]
        if project is not None:
            commands.append([*ctl, "--getquota", "--csv", "--gid", project])
        entry, targets, *quotas = self._tools.run_all(commands)
        by_pool = [
            quota
            for text, kind in zip(quotas, ("user", "group"), strict=False)
            for quota in parse_quota_7(_get_answer_text(text), kind)
        ]
        facts = _add_facts(
            area_facts,
            _get_answer_text(entry),
            parse_targets_7(_get_answer_text(targets)),
            by_pool,
            user,
        )
        return _add_problem(facts, [entry, targets, *quotas])

    def _query_8(self, area_facts: AreaFacts, user: str) -> AreaFacts:
        entry, targets, quotas = self._tools.run_all(
            [
                [_NEW, "entry", "info", "--retro", area_facts.area.path],
                [
                    *(_NEW, "target", "list", "--node-type", "storage", "--state", "--capacity"),
                    *("--raw", "--output", "json"),
                ],
                # Only root may query other users and groups than its own.
                [
                    *(_NEW, "quota", "list-usage", "--uids", "current", "--gids", "current"),
                    *("--raw", "--output", "ndjson"),
                ],
            ]
        )
        by_pool = parse_quota_8(_get_answer_text(quotas))
        facts = _add_facts(
            area_facts,
            _get_answer_text(entry),
            parse_targets_8(_get_answer_text(targets)),
            by_pool,
            user,
        )
        return _add_problem(facts, [entry, targets, quotas])


def _add_facts(
    area_facts: AreaFacts,
    entry: str,
    targets: Sequence[StorageTarget],
    quotas: Sequence[PoolQuota],
    user: str,
) -> AreaFacts:
    striping = parse_striping(entry)
    pool = None if striping is None else striping.pool
    project = area_facts.area.project
    return area_facts.model_copy(
        update={
            "striping": striping,
            "targets": tuple(targets),
            "user_quota": select_quota(quotas, "user", user, pool),
            "project_quota": None
            if project is None
            else select_quota(quotas, "group", project, pool),
        }
    )


def _get_answer_text(answer: str | ToolFailed) -> str:
    return "" if isinstance(answer, ToolFailed) else answer


def _add_problem(facts: AreaFacts, answers: Sequence[str | ToolFailed]) -> AreaFacts:
    failed = dict.fromkeys(str(answer) for answer in answers if isinstance(answer, ToolFailed))
    if not failed:
        return facts
    problem = f"BeeGFS did not report all facts of {facts.area.path}: {'; '.join(failed)}."
    return facts.model_copy(
        update={"problem": problem if facts.problem is None else f"{facts.problem} {problem}"}
    )
