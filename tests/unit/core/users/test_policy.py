"""The permission table, cell by cell."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aitne.core.errors import NotAllowed, NotFound
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Actor, Role, User
from aitne.core.users.permissions import (
    TABLE,
    PolicyAction,
    Relation,
    decide_access,
    find_relations,
    refuse_impersonation,
    require_permission,
)

# One row per action: what OWNER, MEMBER, MANAGER, ADMIN and OTHER may do, and the scope it needs.
EXPECTED: dict[PolicyAction, tuple[str, Scope]] = {
    PolicyAction.JOB_READ: ("yes yes yes yes no", Scope.READ),
    PolicyAction.JOB_CREATE: ("no yes yes yes no", Scope.WRITE),
    PolicyAction.JOB_CANCEL: ("yes no no yes no", Scope.WRITE),
    PolicyAction.JOB_DELETE: ("yes no no yes no", Scope.WRITE),
    PolicyAction.JOB_EXTEND: ("yes no no yes no", Scope.WRITE),
    PolicyAction.JOB_HOLD: ("yes no no yes no", Scope.WRITE),
    PolicyAction.JOB_OPEN: ("yes no no no no", Scope.WRITE),
    PolicyAction.JOB_ATTACH: ("yes no no no no", Scope.WRITE),
    PolicyAction.JOB_RESULT: ("yes no no no no", Scope.READ),
    PolicyAction.JOB_FILES: ("yes no no no no", Scope.READ),
    PolicyAction.JOB_RESUBMIT: ("yes no no no no", Scope.WRITE),
    PolicyAction.CLUSTER_READ: ("yes yes yes yes yes", Scope.READ),
    PolicyAction.NODE_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    PolicyAction.PROJECT_REQUEST: ("yes yes yes yes yes", Scope.WRITE),
    PolicyAction.PROJECT_JOIN: ("yes yes yes yes yes", Scope.WRITE),
    PolicyAction.PROJECT_LEAVE: ("no yes yes no no", Scope.WRITE),
    PolicyAction.PROJECT_MANAGE: ("no no yes yes no", Scope.WRITE),
    PolicyAction.PROJECT_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    PolicyAction.ACCOUNTING_SYNC: ("no no no yes no", Scope.ADMIN),
    PolicyAction.PROJECT_READ: ("no yes yes yes no", Scope.READ),
    PolicyAction.IMAGE_READ: ("no yes yes yes no", Scope.READ),
    PolicyAction.IMAGE_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    PolicyAction.DATASET_READ: ("yes yes yes yes no", Scope.READ),
    PolicyAction.DATASET_ADD: ("no yes yes yes no", Scope.WRITE),
    PolicyAction.DATASET_EDIT: ("yes no no yes no", Scope.WRITE),
    PolicyAction.DATASET_REVOKE: ("yes no yes yes no", Scope.WRITE),
    PolicyAction.DATASET_VERIFY: ("yes yes yes yes no", Scope.WRITE),
    PolicyAction.STORAGE_READ: ("yes no no no no", Scope.READ),
    PolicyAction.TOKEN_READ: ("yes no no yes no", Scope.READ),
    PolicyAction.TOKEN_WRITE: ("yes no no yes no", Scope.WRITE),
    PolicyAction.NOTIFICATION_READ: ("yes no no no no", Scope.READ),
    PolicyAction.NOTIFICATION_WRITE: ("yes no no no no", Scope.WRITE),
    PolicyAction.SECRET_READ: ("yes no no no no", Scope.READ),
    PolicyAction.SECRET_WRITE: ("yes no no no no", Scope.WRITE),
    PolicyAction.PREFERENCE_READ: ("yes no no no no", Scope.READ),
    PolicyAction.PREFERENCE_WRITE: ("yes no no no no", Scope.WRITE),
    PolicyAction.SIGN_IN_READ: ("yes no no no no", Scope.READ),
    PolicyAction.SIGN_IN_WRITE: ("yes no no no no", Scope.WRITE),
    PolicyAction.USER_READ: ("yes no no yes no", Scope.READ),
    PolicyAction.USER_EDIT: ("yes no no yes no", Scope.WRITE),
    PolicyAction.PLATFORM_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    PolicyAction.USER_ADMINISTER: ("no no no yes no", Scope.ADMIN),
}


def actor(
    name: str = "ada",
    *,
    role: Role = Role.USER,
    scopes: frozenset[Scope] = frozenset(Scope),
    projects: frozenset[str] = frozenset(),
    manages: frozenset[str] = frozenset(),
    disabled: bool = False,
) -> Actor:
    user = User(
        name=name,
        role=role,
        default_project="vision",
        disabled=disabled,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Actor(user=user, scopes=scopes, projects=projects, manages=manages)


ACTORS = {
    Relation.OWNER: actor("ada"),
    Relation.MEMBER: actor("bob", projects=frozenset({"vision"})),
    Relation.MANAGER: actor("eva", projects=frozenset({"vision"}), manages=frozenset({"vision"})),
    Relation.ADMIN: actor("root", role=Role.ADMIN),
    Relation.OTHER: actor("eve", projects=frozenset({"speech"}), manages=frozenset({"speech"})),
}


def test_the_whole_table_is_covered() -> None:
    assert set(TABLE) == set(PolicyAction) == set(EXPECTED)


@pytest.mark.parametrize("action", PolicyAction)
@pytest.mark.parametrize("relation", Relation)
def test_each_cell(action: PolicyAction, relation: Relation) -> None:
    cells, scope = EXPECTED[action]
    may = dict(zip(Relation, cells.split(), strict=True))[relation] == "yes"
    decision = decide_access(action, ACTORS[relation], owner="ada", project="vision")
    assert decision.allowed is may
    assert may or decision.reason.endswith(".")
    without = ACTORS[relation].model_copy(update={"scopes": frozenset(Scope) - {scope}})
    assert not decide_access(action, without, owner="ada", project="vision").allowed


@pytest.mark.parametrize("action", PolicyAction)
def test_permitted_action_implies_visibility(action: PolicyAction) -> None:
    for each in ACTORS.values():
        decision = decide_access(action, each, owner="ada", project="vision")
        assert decision.visible or not decision.allowed


def test_an_administrator_without_the_scope_is_a_user_like_any_other() -> None:
    limited = actor("root", role=Role.ADMIN, scopes=frozenset({Scope.READ, Scope.WRITE}))
    assert find_relations(limited, owner="ada") == {Relation.OTHER}
    with pytest.raises(NotFound):
        require_permission(PolicyAction.JOB_READ, limited, "job", 1, owner="ada", project="vision")


def test_hidden_job_and_refused_action_raise_different_errors() -> None:
    with pytest.raises(NotFound, match="The job 7 does not exist, or you have no access"):
        require_permission(
            PolicyAction.JOB_CANCEL, ACTORS[Relation.OTHER], "job", 7, owner="ada", project="vision"
        )
    with pytest.raises(NotAllowed, match="Only its owner or an administrator"):
        require_permission(
            PolicyAction.JOB_CANCEL,
            ACTORS[Relation.MEMBER],
            "job",
            7,
            owner="ada",
            project="vision",
        )


def test_a_missing_scope_is_named() -> None:
    reader = actor(scopes=frozenset({Scope.READ}))
    with pytest.raises(NotAllowed, match="lacks the scope write"):
        require_permission(PolicyAction.JOB_CANCEL, reader, "job", 7, owner="ada", project="vision")


def test_a_disabled_account_may_do_nothing() -> None:
    gone = actor(disabled=True, role=Role.ADMIN)
    assert not any(
        decide_access(action, gone, owner="ada", project="vision").allowed
        for action in PolicyAction
    )


def test_object_without_owner_has_no_owner_relation() -> None:
    assert find_relations(actor(), owner=None, project=None) == {Relation.OTHER}


def test_impersonating_administrator_may_read_and_stop_only() -> None:
    ada = actor("ada", projects=frozenset({"vision"}), manages=frozenset({"vision"}))
    seen = ada.model_copy(update={"impersonator": "root"})
    may = {
        action
        for action in PolicyAction
        if decide_access(action, seen, owner="ada", project="vision").allowed
    }
    reads = {action for action, rule in TABLE.items() if rule.scope is Scope.READ}
    assert may == (reads | {PolicyAction.JOB_CANCEL, PolicyAction.JOB_EXTEND}) - {
        PolicyAction.TOKEN_READ,
        PolicyAction.SIGN_IN_READ,
        PolicyAction.JOB_RESULT,
        PolicyAction.JOB_FILES,
    }
    with pytest.raises(NotAllowed, match="root impersonates ada"):
        require_permission(PolicyAction.JOB_OPEN, seen, "job", 7, owner="ada", project="vision")
    with pytest.raises(NotAllowed, match="root impersonates ada"):
        refuse_impersonation(seen, "open their sessions")
    refuse_impersonation(ada, "open their sessions")
