"""Who may do what: one table of actions and roles.

A role here is the actor's relation to one object. An administrator's relation is ADMIN only while
the credential in use has the scope ``admin``; without it an administrator is a user like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from aitne.core.errors import NotAllowed, NotFound
from aitne.core.models.user import Actor, Role, Scope


class Relation(StrEnum):
    """What the actor is to the object."""

    OWNER = "owner"
    MEMBER = "member"
    """Of the object's project."""
    ADMIN = "admin"
    OTHER = "other"


class Action(StrEnum):
    """Everything that needs a permission."""

    JOB_READ = "job.read"
    """The job, its script, log, samples and events."""
    JOB_CREATE = "job.create"
    """In the project that is given."""
    JOB_CANCEL = "job.cancel"
    JOB_EXTEND = "job.extend"
    JOB_OPEN = "job.open"
    """Work in the session: it acts as its owner, so it is nobody else's."""
    JOB_RESUBMIT = "job.resubmit"
    """Run its commands again, as oneself."""
    CLUSTER_READ = "cluster.read"
    """Templates, nodes, announcements."""
    NODE_ADMINISTER = "node.administer"
    """Drain and resume."""
    PROJECT_READ = "project.read"
    """Its members, limits and usage."""
    PROJECT_ADMINISTER = "project.administer"
    """Make it; change its title, members and limits."""
    ACCOUNTING_SYNC = "accounting.sync"
    """Compare the projects with the scheduler's accounts, and change those."""
    TOKEN_READ = "token.read"  # noqa: S105 - an action's name
    TOKEN_WRITE = "token.write"  # noqa: S105
    """Make and delete personal access tokens of the owner."""
    USER_READ = "user.read"
    USER_EDIT = "user.edit"
    """Display name and password of the owner."""
    USER_ADMINISTER = "user.administer"
    """Create, list, disable; change roles."""


_R = Relation
_ALL = frozenset(Relation)


@dataclass(frozen=True, slots=True)
class Rule:
    """The relations that permit an action, and the scope that the credential needs for it."""

    allowed: frozenset[Relation]
    scope: Scope
    seen_with: Action | None = None
    """The action that says who may know of the object; None: this one does."""


TABLE: dict[Action, Rule] = {
    Action.JOB_READ: Rule(frozenset({_R.OWNER, _R.MEMBER, _R.ADMIN}), Scope.READ),
    Action.JOB_CREATE: Rule(frozenset({_R.MEMBER, _R.ADMIN}), Scope.WRITE, Action.PROJECT_READ),
    Action.JOB_CANCEL: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, Action.JOB_READ),
    Action.JOB_EXTEND: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, Action.JOB_READ),
    Action.JOB_OPEN: Rule(frozenset({_R.OWNER}), Scope.WRITE, Action.JOB_READ),
    Action.JOB_RESUBMIT: Rule(frozenset({_R.OWNER}), Scope.WRITE, Action.JOB_READ),
    Action.CLUSTER_READ: Rule(_ALL, Scope.READ),
    Action.NODE_ADMINISTER: Rule(frozenset({_R.ADMIN}), Scope.ADMIN, Action.CLUSTER_READ),
    Action.PROJECT_READ: Rule(frozenset({_R.MEMBER, _R.ADMIN}), Scope.READ),
    Action.PROJECT_ADMINISTER: Rule(frozenset({_R.ADMIN}), Scope.ADMIN, Action.PROJECT_READ),
    Action.ACCOUNTING_SYNC: Rule(frozenset({_R.ADMIN}), Scope.ADMIN, Action.CLUSTER_READ),
    Action.TOKEN_READ: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.READ),
    Action.TOKEN_WRITE: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, Action.TOKEN_READ),
    Action.USER_READ: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.READ),
    Action.USER_EDIT: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, Action.USER_READ),
    Action.USER_ADMINISTER: Rule(frozenset({_R.ADMIN}), Scope.ADMIN, Action.USER_READ),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """``visible`` is whether the actor may know that the object exists."""

    allowed: bool
    visible: bool
    reason: str = ""
    """Why not, as a sentence."""


def relations(
    actor: Actor, *, owner: str | None = None, project: str | None = None
) -> frozenset[Relation]:
    """All that the actor is to an object of ``owner`` in ``project``; never empty."""
    found = {
        relation
        for relation, holds in (
            (Relation.OWNER, owner is not None and owner == actor.name),
            (Relation.MEMBER, project is not None and project in actor.projects),
            (Relation.ADMIN, actor.is_admin),
        )
        if holds
    }
    return frozenset(found or {Relation.OTHER})


def decide(
    action: Action, actor: Actor, *, owner: str | None = None, project: str | None = None
) -> Decision:
    """Whether the actor may do this to an object of ``owner`` in ``project``."""
    rule = TABLE[action]
    mine = relations(actor, owner=owner, project=project)
    visible = bool(mine & TABLE[rule.seen_with or action].allowed)
    if actor.user.disabled:
        return Decision(False, visible, f"The account {actor.name} is disabled.")
    if not mine & rule.allowed:
        who = " or ".join(
            _WHO[relation] for relation in Relation if relation in rule.allowed and relation in _WHO
        )
        return Decision(False, visible, f"Only {who} may do this ({action}).")
    if rule.scope not in actor.scopes:
        return Decision(
            False,
            visible,
            f"The token in use lacks the scope {rule.scope}, which {action} needs; make one with it.",
        )
    return Decision(True, visible)


_WHO = {
    Relation.OWNER: "its owner",
    Relation.MEMBER: "a member of the project",
    Relation.ADMIN: "an administrator",
}


def require_full_login(actor: Actor, what: str) -> None:
    """Pass when the credential in use may do all that a login of the actor may.

    Raises:
        NotAllowed: ``what`` would be a way around the scopes of the token in use.
    """
    needed = set(Scope) if actor.user.role is Role.ADMIN else {Scope.READ, Scope.WRITE}
    if missing := needed - actor.scopes:
        raise NotAllowed(
            f"{what} gives a full login, and the token in use lacks the scope "
            f"{', '.join(sorted(missing))}. Use a token with all scopes."
        )


def require(
    action: Action,
    actor: Actor,
    kind: str,
    name: object,
    *,
    owner: str | None = None,
    project: str | None = None,
) -> None:
    """Pass when ``decide`` allows it. ``kind`` and ``name`` say of what, in a message.

    Raises:
        NotFound: the actor may not know that the object exists.
        NotAllowed: the actor may see it, and may not do this.
    """
    decision = decide(action, actor, owner=owner, project=project)
    if decision.allowed:
        return
    if not decision.visible:
        raise NotFound(kind, name)
    raise NotAllowed(decision.reason)
