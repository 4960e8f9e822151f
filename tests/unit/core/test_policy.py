"""The permission table, cell by cell."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aitne.core.errors import NotAllowed, NotFound
from aitne.core.models.user import Actor, Role, Scope, User
from aitne.core.policy import (
    TABLE,
    Action,
    Relation,
    decide,
    refuse_impersonation,
    relations,
    require,
)

# One row per action: what OWNER, MEMBER, MANAGER, ADMIN and OTHER may do, and the scope it needs.
EXPECTED: dict[Action, tuple[str, Scope]] = {
    Action.JOB_READ: ("yes yes yes yes no", Scope.READ),
    Action.JOB_CREATE: ("no yes yes yes no", Scope.WRITE),
    Action.JOB_CANCEL: ("yes no no yes no", Scope.WRITE),
    Action.JOB_EXTEND: ("yes no no yes no", Scope.WRITE),
    Action.JOB_OPEN: ("yes no no no no", Scope.WRITE),
    Action.JOB_ATTACH: ("yes no no no no", Scope.WRITE),
    Action.JOB_RESUBMIT: ("yes no no no no", Scope.WRITE),
    Action.CLUSTER_READ: ("yes yes yes yes yes", Scope.READ),
    Action.NODE_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    Action.PROJECT_REQUEST: ("yes yes yes yes yes", Scope.WRITE),
    Action.PROJECT_JOIN: ("yes yes yes yes yes", Scope.WRITE),
    Action.PROJECT_LEAVE: ("no yes yes no no", Scope.WRITE),
    Action.PROJECT_MANAGE: ("no no yes yes no", Scope.WRITE),
    Action.PROJECT_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    Action.ACCOUNTING_SYNC: ("no no no yes no", Scope.ADMIN),
    Action.PROJECT_READ: ("no yes yes yes no", Scope.READ),
    Action.IMAGE_READ: ("no yes yes yes no", Scope.READ),
    Action.IMAGE_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    Action.DATASET_READ: ("yes yes yes yes no", Scope.READ),
    Action.DATASET_ADD: ("no yes yes yes no", Scope.WRITE),
    Action.DATASET_EDIT: ("yes no no yes no", Scope.WRITE),
    Action.DATASET_REVOKE: ("yes no yes yes no", Scope.WRITE),
    Action.DATASET_VERIFY: ("yes yes yes yes no", Scope.WRITE),
    Action.STORAGE_READ: ("yes no no no no", Scope.READ),
    Action.TOKEN_READ: ("yes no no yes no", Scope.READ),
    Action.TOKEN_WRITE: ("yes no no yes no", Scope.WRITE),
    Action.NOTIFICATION_READ: ("yes no no no no", Scope.READ),
    Action.NOTIFICATION_WRITE: ("yes no no no no", Scope.WRITE),
    Action.SECRET_READ: ("yes no no no no", Scope.READ),
    Action.SECRET_WRITE: ("yes no no no no", Scope.WRITE),
    Action.PREFERENCE_READ: ("yes no no no no", Scope.READ),
    Action.PREFERENCE_WRITE: ("yes no no no no", Scope.WRITE),
    Action.SIGN_IN_READ: ("yes no no no no", Scope.READ),
    Action.SIGN_IN_WRITE: ("yes no no no no", Scope.WRITE),
    Action.USER_READ: ("yes no no yes no", Scope.READ),
    Action.USER_EDIT: ("yes no no yes no", Scope.WRITE),
    Action.PLATFORM_ADMINISTER: ("no no no yes no", Scope.ADMIN),
    Action.USER_ADMINISTER: ("no no no yes no", Scope.ADMIN),
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
    assert set(TABLE) == set(Action) == set(EXPECTED)


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("relation", Relation)
def test_each_cell(action: Action, relation: Relation) -> None:
    cells, scope = EXPECTED[action]
    may = dict(zip(Relation, cells.split(), strict=True))[relation] == "yes"
    decision = decide(action, ACTORS[relation], owner="ada", project="vision")
    assert decision.allowed is may
    assert may or decision.reason.endswith(".")
    without = ACTORS[relation].model_copy(update={"scopes": frozenset(Scope) - {scope}})
    assert not decide(action, without, owner="ada", project="vision").allowed


@pytest.mark.parametrize("action", Action)
def test_permitted_action_implies_visibility(action: Action) -> None:
    for each in ACTORS.values():
        decision = decide(action, each, owner="ada", project="vision")
        assert decision.visible or not decision.allowed


def test_an_administrator_without_the_scope_is_a_user_like_any_other() -> None:
    limited = actor("root", role=Role.ADMIN, scopes=frozenset({Scope.READ, Scope.WRITE}))
    assert relations(limited, owner="ada") == {Relation.OTHER}
    with pytest.raises(NotFound):
        require(Action.JOB_READ, limited, "job", 1, owner="ada", project="vision")


def test_hidden_job_and_refused_action_raise_different_errors() -> None:
    with pytest.raises(NotFound, match="no job 7 that you may see"):
        require(Action.JOB_CANCEL, ACTORS[Relation.OTHER], "job", 7, owner="ada", project="vision")
    with pytest.raises(NotAllowed, match="Only its owner or an administrator"):
        require(Action.JOB_CANCEL, ACTORS[Relation.MEMBER], "job", 7, owner="ada", project="vision")


def test_a_missing_scope_is_named() -> None:
    reader = actor(scopes=frozenset({Scope.READ}))
    with pytest.raises(NotAllowed, match="lacks the scope write"):
        require(Action.JOB_CANCEL, reader, "job", 7, owner="ada", project="vision")


def test_a_disabled_account_may_do_nothing() -> None:
    gone = actor(disabled=True, role=Role.ADMIN)
    assert not any(decide(action, gone, owner="ada", project="vision").allowed for action in Action)


def test_object_without_owner_has_no_owner_relation() -> None:
    assert relations(actor(), owner=None, project=None) == {Relation.OTHER}


def test_impersonating_administrator_may_read_and_stop_only() -> None:
    ada = actor("ada", projects=frozenset({"vision"}), manages=frozenset({"vision"}))
    seen = ada.model_copy(update={"impersonator": "root"})
    may = {
        action for action in Action if decide(action, seen, owner="ada", project="vision").allowed
    }
    reads = {action for action, rule in TABLE.items() if rule.scope is Scope.READ}
    assert may == (reads | {Action.JOB_CANCEL, Action.JOB_EXTEND}) - {
        Action.TOKEN_READ,
        Action.SIGN_IN_READ,
    }
    with pytest.raises(NotAllowed, match="root impersonates ada"):
        require(Action.JOB_OPEN, seen, "job", 7, owner="ada", project="vision")
    with pytest.raises(NotAllowed, match="root impersonates ada"):
        refuse_impersonation(seen, "open their sessions")
    refuse_impersonation(ada, "open their sessions")
