"""Permissions: for each action, the relations and scopes that permit it.

A relation is that of the actor to one object, such as owner or member. An administrator has the
relation ADMIN only if the credential in use has the scope ``admin``; otherwise the administrator
has the permissions of any other user.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aitne.core.errors import NotAllowed, NotFound, ReauthenticationRequired
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Actor, Role


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
    """Read the job, its script, log, samples and events."""
    JOB_CREATE = "job.create"
    """Create a job in the given project."""
    JOB_CANCEL = "job.cancel"
    JOB_DELETE = "job.delete"
    """Delete an ended job: its record and its folder."""
    JOB_EXTEND = "job.extend"
    JOB_HOLD = "job.hold"
    """Hold and release the job while it is pending; limit how many of its tasks run at once."""
    JOB_OPEN = "job.open"
    """Open the session. It runs as its owner, so only the owner may open it."""
    JOB_ATTACH = "job.attach"
    """Start a program, such as a terminal, in the running job under its owner's account; only the
    owner may do so.
    """
    JOB_RESULT = "job.result"
    """Read what the job's function returned: a pickle, which runs code where it is loaded. Only the
    owner may do so.
    """
    JOB_FILES = "job.files"
    """Read files of the job's folders under its owner's account; only the owner may do so."""
    JOB_RESUBMIT = "job.resubmit"
    """Submit a new job with the same commands, which belongs to the actor."""
    CLUSTER_READ = "cluster.read"
    """Read templates, nodes and announcements."""
    NODE_ADMINISTER = "node.administer"
    """Drain and resume nodes."""
    PLATFORM_ADMINISTER = "platform.administer"
    """Change announcements and maintenance; read health, settings and the audit log."""
    PROJECT_READ = "project.read"
    """Read the project's members, limits and usage."""
    PROJECT_REQUEST = "project.request"
    """Request a new project, or create it if the site permits that to all users."""
    PROJECT_JOIN = "project.join"
    """Join a project by an invitation."""
    PROJECT_LEAVE = "project.leave"
    PROJECT_MANAGE = "project.manage"
    """Change the project's title, members, invitations, and limits up to the granted ones; close
    it, request a later end.
    """
    PROJECT_ADMINISTER = "project.administer"
    """Approve the project; grant limits, budget and a later end; make it a user's default
    project.
    """
    ACCOUNTING_SYNC = "accounting.sync"
    """Compare the projects with the scheduler's accounts, and change these accounts."""
    IMAGE_READ = "image.read"
    """Read the images for all users, and those for the actor's projects."""
    IMAGE_ADMINISTER = "image.administer"
    """Register, retire, verify and remove images; set the projects that may use them."""
    DATASET_READ = "dataset.read"
    """Read the dataset's entry and manifest; name the dataset in a job."""
    DATASET_ADD = "dataset.add"
    """Add a dataset in the given project."""
    DATASET_EDIT = "dataset.edit"
    """Permit and forbid projects to read the dataset; retire it."""
    DATASET_REVOKE = "dataset.revoke"
    """Forbid a project to read the dataset, which the managers of that project may do too."""
    DATASET_VERIFY = "dataset.verify"
    """Store the result of a verification of the dataset."""
    STORAGE_READ = "storage.read"
    """Read the storage areas of the owner, and their quotas."""
    TOKEN_READ = "token.read"  # noqa: S105 - an action's name
    TOKEN_WRITE = "token.write"  # noqa: S105
    """Create and delete access tokens of the owner."""
    NOTIFICATION_READ = "notification.read"
    """Read the owner's notifications, choices of channels and webhooks."""
    NOTIFICATION_WRITE = "notification.write"
    """Mark notifications as read, choose channels, create and delete webhooks."""
    SECRET_READ = "secret.read"  # noqa: S105 - an action's name
    SECRET_WRITE = "secret.write"  # noqa: S105
    """Store and delete the owner's secrets. Only the owner's jobs can read the values."""
    PREFERENCE_READ = "preference.read"
    PREFERENCE_WRITE = "preference.write"
    """Change the owner's preferences in the portal."""
    SIGN_IN_READ = "sign_in.read"
    SIGN_IN_WRITE = "sign_in.write"
    """Manage the owner's sign-ins, password and second factor."""
    USER_READ = "user.read"
    USER_EDIT = "user.edit"
    """Change the display name and password of the owner."""
    USER_ADMINISTER = "user.administer"
    """Create, list and disable users; change their roles."""


_R = Relation
_ALL = frozenset(Relation)


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for one action: the relations that permit it, and the scope that an access token
    needs.
    """

    allowed: frozenset[Relation]
    """Relations to the object, any of which permits the action."""
    scope: Scope
    """Scope that an access token needs for the action."""
    seen_with: PolicyAction | None = None
    """Action whose rule determines which users may know that the object exists; None: this action's
    own rule does.
    """


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
    PolicyAction.JOB_RESULT: Rule(frozenset({_R.OWNER}), Scope.READ, PolicyAction.JOB_READ),
    PolicyAction.JOB_FILES: Rule(frozenset({_R.OWNER}), Scope.READ, PolicyAction.JOB_READ),
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
) - {
    PolicyAction.TOKEN_READ,
    PolicyAction.SIGN_IN_READ,
    PolicyAction.JOB_RESULT,
    PolicyAction.JOB_FILES,
}
"""Actions that an administrator may take while impersonating a user: reading, except the user's own
files, and changes that run no program as the user.
"""


IN_SESSIONS: frozenset[PolicyAction] = frozenset(
    {
        PolicyAction.JOB_READ,
        PolicyAction.JOB_CREATE,
        PolicyAction.JOB_CANCEL,
        PolicyAction.JOB_HOLD,
        PolicyAction.JOB_OPEN,
        PolicyAction.JOB_RESUBMIT,
        PolicyAction.JOB_RESULT,
        PolicyAction.JOB_FILES,
        PolicyAction.CLUSTER_READ,
        PolicyAction.PROJECT_READ,
        PolicyAction.IMAGE_READ,
        PolicyAction.DATASET_READ,
        PolicyAction.STORAGE_READ,
    }
)
"""Actions that a session token permits. Those on existing jobs need the relation OWNER, also for
managers and administrators. JOB_OPEN is for the ranks of a session: the API does not open sessions
for a session token.
"""
_OWN_IN_SESSIONS = frozenset(
    {
        PolicyAction.JOB_READ,
        PolicyAction.JOB_CANCEL,
        PolicyAction.JOB_RESULT,
        PolicyAction.JOB_FILES,
        PolicyAction.JOB_HOLD,
        PolicyAction.JOB_OPEN,
        PolicyAction.JOB_RESUBMIT,
    }
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision whether an action is permitted."""

    allowed: bool
    visible: bool
    """Whether the actor may know that the object exists."""
    reason: str = ""
    """Reason for a refusal, as a sentence; empty if the action is permitted."""


def find_relations(
    actor: Actor, *, owner: str | None = None, project: str | None = None
) -> frozenset[Relation]:
    """Return all relations of the actor to an object that belongs to ``owner`` and ``project``;
    never empty.
    """
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


def decide_access(
    action: PolicyAction, actor: Actor, *, owner: str | None = None, project: str | None = None
) -> Decision:
    """Return whether the actor may take the action on an object that belongs to ``owner`` and
    ``project``, with the reason for a refusal.
    """
    rule = TABLE[action]
    actor_relations = find_relations(actor, owner=owner, project=project)
    visible = bool(actor_relations & TABLE[rule.seen_with or action].allowed)
    if actor.user.disabled:
        return Decision(False, visible, f"The account {actor.name} is disabled.")
    if not actor_relations & rule.allowed:
        who = " or ".join(
            _WHO[relation] for relation in Relation if relation in rule.allowed and relation in _WHO
        )
        return Decision(False, visible, f"Only {who} may do this ({action}).")
    if actor.impersonator is not None and action not in IMPERSONATED:
        return Decision(False, visible, _describe_impersonation(actor, f"do this ({action})"))
    if actor.session is not None:
        own = Relation.OWNER in actor_relations or action not in _OWN_IN_SESSIONS
        if action not in IN_SESSIONS or not own:
            return Decision(False, visible, describe_session_refusal(f"permit this ({action})"))
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


def _describe_impersonation(actor: Actor, what: str) -> str:
    return (
        f"{actor.impersonator} impersonates {actor.name}, and so may not {what}. End the "
        "impersonation first."
    )


def describe_session_refusal(what: str) -> str:
    """Return the message that a session token does not do ``what``."""
    return (
        f"The token of a session does not {what}: it is for the jobs of its owner alone. Use the "
        "portal, or a personal access token."
    )


def refuse_impersonation(actor: Actor, what: str) -> None:
    """Check that no administrator impersonates the user; ``what`` names the action in the message.

    Raises:
        NotAllowed: an administrator does, and only the user may do ``what``.
    """
    if actor.impersonator is not None:
        raise NotAllowed(_describe_impersonation(actor, what))


def require_full_login(actor: Actor, what: str, *, outlives: bool = True) -> None:
    """Check that the credential in use permits all that a login of the actor would permit; ``what``
    names the requested operation in the message.

    With ``outlives``, the result of the operation stays valid after the expiry of the token in use,
    so the token must not expire.

    Raises:
        NotAllowed: the token in use expires or lacks a scope, so that the operation would evade
            this restriction.
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
"""Seconds after a login, or after checking a password or code, in which the user may create new
credentials.
"""


def require_portal_login(actor: Actor, what: str) -> None:
    """Check that the user is at a browser, or is an administrator whose token has the scope
    ``admin``, before credentials of the account are created or ended; ``what`` names that in the
    message.

    Raises:
        NotAllowed: another access token authenticated the request.
        ReauthenticationRequired: the browser was logged in by a link that a token has made, and the
            user has not authenticated in it.
    """
    if actor.is_admin or not actor.credential:
        return
    if actor.sign_in_id is None:
        raise NotAllowed(
            f"{what} requires a login of the portal, or an administrator's token with the scope admin: "
            "a token does not change the other credentials of its owner. Log in to the portal "
            "(Account), or run `aitne login URL --user NAME`."
        )
    if actor.authenticated_at is None:
        raise ReauthenticationRequired(
            "Confirm your identity with your password or a code of your second factor: you were logged "
            "in by a link of a token."
        )


def require_recent_authentication(actor: Actor, now: datetime) -> None:
    """Check that the user has authenticated recently. Requests with access tokens always pass.

    Raises:
        ReauthenticationRequired: the last authentication was too long ago, or the browser was logged
            in by a link that a token has made.
    """
    if actor.sign_in_id is None:
        return
    since = actor.authenticated_at
    if since is None or (now - since).total_seconds() > REAUTHENTICATION_S:
        raise ReauthenticationRequired(
            "Confirm your identity with your password, a code of your second factor or, as an "
            "administrator, a new login link (`aitne open --print`): your login is too old for a change "
            "of the credentials of your account."
        )


def require_permission(
    action: PolicyAction,
    actor: Actor,
    kind: str,
    name: object,
    *,
    owner: str | None = None,
    project: str | None = None,
) -> None:
    """Check that the actor may take the action on an object that belongs to ``owner`` and
    ``project``; ``kind`` and ``name`` describe the object in a message.

    Raises:
        NotFound: the actor may not know that the object exists.
        NotAllowed: the actor may see the object, but may not take the action.
    """
    decision = decide_access(action, actor, owner=owner, project=project)
    if decision.allowed:
        return
    if not decision.visible:
        raise NotFound(kind, name)
    raise NotAllowed(decision.reason)
