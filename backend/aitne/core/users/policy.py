"""Permissions: one table of actions and roles.

A role here is the actor's relation to one object. An administrator's relation is ADMIN only while
the credential in use has the scope ``admin``; without it an administrator is a user like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aitne.core.errors import NotAllowed, NotFound, ReauthenticationRequired
from aitne.core.models.user import Actor, Role, Scope


class Relation(StrEnum):
    """Relation of the actor to the object."""

    OWNER = "owner"
    MEMBER = "member"
    """Member of the object's project."""
    MANAGER = "manager"
    """Manager of the object's project, and so a member too."""
    ADMIN = "admin"
    OTHER = "other"


class PolicyAction(StrEnum):
    """Action for which a user needs permission."""

    JOB_READ = "job.read"
    """The job, its script, log, samples and events."""
    JOB_CREATE = "job.create"
    """In the project that is given."""
    JOB_CANCEL = "job.cancel"
    JOB_DELETE = "job.delete"
    """Once it has ended: its record and its folder."""
    JOB_EXTEND = "job.extend"
    JOB_HOLD = "job.hold"
    """Hold and release it while it waits; limit how many of its tasks run at once."""
    JOB_OPEN = "job.open"
    """Work in the session: it acts as its owner, so no other user may."""
    JOB_ATTACH = "job.attach"
    """Attach beside its program, as its owner: no other user may."""
    JOB_RESUBMIT = "job.resubmit"
    """Run its commands again, as oneself."""
    CLUSTER_READ = "cluster.read"
    """Templates, nodes, announcements."""
    NODE_ADMINISTER = "node.administer"
    """Drain and resume."""
    PLATFORM_ADMINISTER = "platform.administer"
    """Announcements and maintenance; health, settings and the audit log."""
    PROJECT_READ = "project.read"
    """Its members, limits and usage."""
    PROJECT_REQUEST = "project.request"
    """Request a new one, or create it where the site permits that to all users."""
    PROJECT_JOIN = "project.join"
    """By an invitation."""
    PROJECT_LEAVE = "project.leave"
    PROJECT_MANAGE = "project.manage"
    """Its title, members, invitations, limits within the administrator's; close it, ask for more
    time."""
    PROJECT_ADMINISTER = "project.administer"
    """Approve it; grant limits, budget and time; make it a user's default."""
    ACCOUNTING_SYNC = "accounting.sync"
    """Compare the projects with the scheduler's accounts, and change those."""
    IMAGE_READ = "image.read"
    """Those for all users, and those of the actor's projects."""
    IMAGE_ADMINISTER = "image.administer"
    """Register, retire, verify, remove; set the projects that see it."""
    DATASET_READ = "dataset.read"
    """Its entry and manifest; to name it in a job."""
    DATASET_ADD = "dataset.add"
    """In the project that is given."""
    DATASET_EDIT = "dataset.edit"
    """Grant and revoke, retire."""
    DATASET_REVOKE = "dataset.revoke"
    """Take it from a project; that project's managers may, too."""
    DATASET_VERIFY = "dataset.verify"
    """Note what a verification found."""
    STORAGE_READ = "storage.read"
    """The areas of the owner, and their quotas."""
    TOKEN_READ = "token.read"  # noqa: S105 - an action's name
    TOKEN_WRITE = "token.write"  # noqa: S105
    """Make and delete personal access tokens of the owner."""
    NOTIFICATION_READ = "notification.read"
    """The owner's inbox, choices and webhooks."""
    NOTIFICATION_WRITE = "notification.write"
    """Mark as read, choose, make and remove webhooks."""
    SECRET_READ = "secret.read"  # noqa: S105 - an action's name
    SECRET_WRITE = "secret.write"  # noqa: S105
    """Store and delete the owner's secrets; nothing reads their values but the owner's jobs."""
    PREFERENCE_READ = "preference.read"
    PREFERENCE_WRITE = "preference.write"
    """Change the owner's preferences in the portal."""
    SIGN_IN_READ = "sign_in.read"
    SIGN_IN_WRITE = "sign_in.write"
    """Logins of the owner, and the factors that authenticate them."""
    USER_READ = "user.read"
    USER_EDIT = "user.edit"
    """Display name and password of the owner."""
    USER_ADMINISTER = "user.administer"
    """Create, list, disable; change roles."""


_R = Relation
_ALL = frozenset(Relation)


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for one action: the relations to the object that permit it, and the scope that an access
    token needs.
    """

    allowed: frozenset[Relation]
    scope: Scope
    seen_with: PolicyAction | None = None
    """The action that determines who may know of the object; None: this one does."""


TABLE: dict[PolicyAction, Rule] = {
    PolicyAction.JOB_READ: Rule(frozenset({_R.OWNER, _R.MEMBER, _R.ADMIN}), Scope.READ),
    PolicyAction.JOB_CREATE: Rule(
        frozenset({_R.MEMBER, _R.ADMIN}), Scope.WRITE, PolicyAction.PROJECT_READ
    ),
    PolicyAction.JOB_CANCEL: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.JOB_READ
    ),
    PolicyAction.JOB_DELETE: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.JOB_READ
    ),
    PolicyAction.JOB_EXTEND: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.JOB_READ
    ),
    PolicyAction.JOB_HOLD: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.JOB_READ
    ),
    PolicyAction.JOB_OPEN: Rule(frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.JOB_READ),
    PolicyAction.JOB_ATTACH: Rule(frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.JOB_READ),
    PolicyAction.JOB_RESUBMIT: Rule(frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.JOB_READ),
    PolicyAction.CLUSTER_READ: Rule(_ALL, Scope.READ),
    PolicyAction.NODE_ADMINISTER: Rule(
        frozenset({_R.ADMIN}), Scope.ADMIN, PolicyAction.CLUSTER_READ
    ),
    PolicyAction.PLATFORM_ADMINISTER: Rule(
        frozenset({_R.ADMIN}), Scope.ADMIN, PolicyAction.CLUSTER_READ
    ),
    PolicyAction.PROJECT_READ: Rule(frozenset({_R.MEMBER, _R.ADMIN}), Scope.READ),
    PolicyAction.PROJECT_REQUEST: Rule(_ALL, Scope.WRITE),
    PolicyAction.PROJECT_JOIN: Rule(_ALL, Scope.WRITE),
    PolicyAction.PROJECT_LEAVE: Rule(
        frozenset({_R.MEMBER}), Scope.WRITE, PolicyAction.PROJECT_READ
    ),
    PolicyAction.PROJECT_MANAGE: Rule(
        frozenset({_R.MANAGER, _R.ADMIN}), Scope.WRITE, PolicyAction.PROJECT_READ
    ),
    PolicyAction.PROJECT_ADMINISTER: Rule(
        frozenset({_R.ADMIN}), Scope.ADMIN, PolicyAction.PROJECT_READ
    ),
    PolicyAction.ACCOUNTING_SYNC: Rule(
        frozenset({_R.ADMIN}), Scope.ADMIN, PolicyAction.CLUSTER_READ
    ),
    PolicyAction.IMAGE_READ: Rule(frozenset({_R.MEMBER, _R.ADMIN}), Scope.READ),
    PolicyAction.IMAGE_ADMINISTER: Rule(
        frozenset({_R.ADMIN}), Scope.ADMIN, PolicyAction.IMAGE_READ
    ),
    PolicyAction.DATASET_READ: Rule(frozenset({_R.OWNER, _R.MEMBER, _R.ADMIN}), Scope.READ),
    PolicyAction.DATASET_ADD: Rule(
        frozenset({_R.MEMBER, _R.ADMIN}), Scope.WRITE, PolicyAction.PROJECT_READ
    ),
    PolicyAction.DATASET_EDIT: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.DATASET_READ
    ),
    PolicyAction.DATASET_REVOKE: Rule(
        frozenset({_R.OWNER, _R.MANAGER, _R.ADMIN}), Scope.WRITE, PolicyAction.DATASET_READ
    ),
    PolicyAction.DATASET_VERIFY: Rule(
        frozenset({_R.OWNER, _R.MEMBER, _R.ADMIN}), Scope.WRITE, PolicyAction.DATASET_READ
    ),
    PolicyAction.STORAGE_READ: Rule(frozenset({_R.OWNER}), Scope.READ),
    PolicyAction.TOKEN_READ: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.READ),
    PolicyAction.TOKEN_WRITE: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.TOKEN_READ
    ),
    PolicyAction.NOTIFICATION_READ: Rule(frozenset({_R.OWNER}), Scope.READ),
    PolicyAction.NOTIFICATION_WRITE: Rule(
        frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.NOTIFICATION_READ
    ),
    PolicyAction.SECRET_READ: Rule(frozenset({_R.OWNER}), Scope.READ),
    PolicyAction.SECRET_WRITE: Rule(frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.SECRET_READ),
    PolicyAction.PREFERENCE_READ: Rule(frozenset({_R.OWNER}), Scope.READ),
    PolicyAction.PREFERENCE_WRITE: Rule(
        frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.PREFERENCE_READ
    ),
    PolicyAction.SIGN_IN_READ: Rule(frozenset({_R.OWNER}), Scope.READ),
    PolicyAction.SIGN_IN_WRITE: Rule(frozenset({_R.OWNER}), Scope.WRITE, PolicyAction.SIGN_IN_READ),
    PolicyAction.USER_READ: Rule(frozenset({_R.OWNER, _R.ADMIN}), Scope.READ),
    PolicyAction.USER_EDIT: Rule(
        frozenset({_R.OWNER, _R.ADMIN}), Scope.WRITE, PolicyAction.USER_READ
    ),
    PolicyAction.USER_ADMINISTER: Rule(frozenset({_R.ADMIN}), Scope.ADMIN, PolicyAction.USER_READ),
}


IMPERSONATED: frozenset[PolicyAction] = frozenset(
    {
        *(action for action, rule in TABLE.items() if rule.scope is Scope.READ),
        PolicyAction.JOB_CANCEL,
        PolicyAction.JOB_EXTEND,
    }
) - {PolicyAction.TOKEN_READ, PolicyAction.SIGN_IN_READ}
"""Actions of an administrator who impersonates a user: reading, and what runs nothing as the
user."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on an action. ``visible`` is whether the actor may know that the object exists."""

    allowed: bool
    visible: bool
    reason: str = ""
    """Reason for a refusal, as a sentence."""


def relations(
    actor: Actor, *, owner: str | None = None, project: str | None = None
) -> frozenset[Relation]:
    """Return all relations of the actor to an object of ``owner`` in ``project``; never empty."""
    held_relations = {
        relation
        for relation, holds in (
            (Relation.OWNER, owner is not None and owner == actor.name),
            (Relation.MEMBER, project is not None and project in actor.projects),
            (Relation.MANAGER, project is not None and project in actor.manages),
            (Relation.ADMIN, actor.is_admin),
        )
        if holds
    }
    return frozenset(held_relations or {Relation.OTHER})


def decide(
    action: PolicyAction, actor: Actor, *, owner: str | None = None, project: str | None = None
) -> Decision:
    """Return whether the actor may do this to an object of ``owner`` in ``project``."""
    rule = TABLE[action]
    actor_relations = relations(actor, owner=owner, project=project)
    visible = bool(actor_relations & TABLE[rule.seen_with or action].allowed)
    if actor.user.disabled:
        return Decision(False, visible, f"The account {actor.name} is disabled.")
    if not actor_relations & rule.allowed:
        who = " or ".join(
            _WHO[relation] for relation in Relation if relation in rule.allowed and relation in _WHO
        )
        return Decision(False, visible, f"Only {who} may do this ({action}).")
    if actor.impersonator is not None and action not in IMPERSONATED:
        return Decision(False, visible, _as_somebody_else(actor, f"do this ({action})"))
    if rule.scope not in actor.scopes:
        return Decision(
            False,
            visible,
            f"The token in use lacks the scope {rule.scope}, which {action} needs; create one "
            "with it.",
        )
    return Decision(True, visible)


_WHO = {
    Relation.OWNER: "its owner",
    Relation.MEMBER: "a member of the project",
    Relation.MANAGER: "a manager of the project",
    Relation.ADMIN: "an administrator",
}


def _as_somebody_else(actor: Actor, what: str) -> str:
    return (
        f"{actor.impersonator} impersonates {actor.name}, and so may not {what}. End the "
        "impersonation first."
    )


def refuse_impersonation(actor: Actor, what: str) -> None:
    """Pass unless an administrator impersonates the user.

    Raises:
        NotAllowed: only the user may do ``what``.
    """
    if actor.impersonator is not None:
        raise NotAllowed(_as_somebody_else(actor, what))


def require_full_login(actor: Actor, what: str, *, outlives: bool = True) -> None:
    """Pass when the credential in use may do all that a login of the actor may.

    ``outlives``: ``what`` holds longer than a token in use that ends.

    Raises:
        NotAllowed: ``what`` would be a way around the scopes or the end of the token in use.
    """
    if outlives and actor.until is not None:
        raise NotAllowed(
            f"{what} would outlive the token in use, which ends at {actor.until:%Y-%m-%d %H:%M} UTC. "
            "Log in with your password, or use a token without an end."
        )
    needed = set(Scope) if actor.user.role is Role.ADMIN else {Scope.READ, Scope.WRITE}
    if missing := needed - actor.scopes:
        raise NotAllowed(
            f"{what} gives a full login, and the token in use lacks the scope "
            f"{', '.join(sorted(missing))}. Use a token with all scopes."
        )


REAUTHENTICATION_S = 900
"""Seconds for which a login, or a password or code given after it, permits new credentials."""


def require_recent_authentication(actor: Actor, now: datetime) -> None:
    """Pass for tokens, and when the user authenticated recently.

    Raises:
        ReauthenticationRequired: the last authentication was too long ago.
    """
    since = actor.authenticated_at
    if since is not None and (now - since).total_seconds() > REAUTHENTICATION_S:
        raise ReauthenticationRequired(
            "Enter your password or a code of your second factor again: your login is "
            "too old for a change of the credentials of your account."
        )


def require(
    action: PolicyAction,
    actor: Actor,
    kind: str,
    name: object,
    *,
    owner: str | None = None,
    project: str | None = None,
) -> None:
    """Pass when ``decide`` allows it. ``kind`` and ``name`` name the object in a message.

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
