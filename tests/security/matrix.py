"""The access matrix of the routes, with which `test_matrix.py` compares the API.

The routes come from the OpenAPI document. One that is missing here fails the test, so that no route
can be added without a statement of who may call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aitne.core.models.access_token import Scope

WHO = (
    "anonymous",
    "owner",
    "owner with a token to read",
    "manager",
    "member",
    "stranger",
    "administrator",
    "administrator without the scope",
    "disabled",
    "owner's session",
    "manager's session",
    "administrator's session",
)
"""``owner`` is ada, whose job, session, dataset and token it is; ``member`` and ``manager`` are in her
project, and the manager looks after it. The sessions call with their session tokens, and ada's is not
the session that others want."""

PUBLIC = "public"
ANYONE = "anyone"
OWNER = "owner"
MEMBER = "member"
MANAGER = "manager"
OWN, ANY = "own", "any"
ADMIN = "admin"
REFUSED = frozenset({401, 403, 404})
UNKNOWN_PROJECT = REFUSED | {422}
"""A project that is not the caller's is a wrong field of the body."""


@dataclass(frozen=True, slots=True)
class Route:
    """The roles that may call a route, the scope that they need, and an example of a call."""

    may: frozenset[str]
    scope: Scope = Scope.READ
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    kind: str = "job"
    """The kind of ada's object that the call needs: her ``job``, ``session`` or ``sweep``."""
    full_login: bool = False
    """The route could give a token with few scopes further ones."""
    session: str = ""
    """The access of a session token.

    ``""``: none; ``OWN``: objects of its owner; ``ANY``: all that its owner may do without the
    scope admin.
    """
    refused: frozenset[int] = REFUSED
    """The statuses that refuse the call."""

    def passes(self, who: str) -> bool:
        """Return whether the matrix permits the call to ``who``."""
        if PUBLIC in self.may:
            return True
        if who in ("anonymous", "disabled"):
            return False
        if who.endswith("'s session"):
            return self._passes_session(who.removesuffix("'s session"))
        scopes = {
            "owner with a token to read": {Scope.READ},
            "administrator": set(Scope),
        }.get(who, {Scope.READ, Scope.WRITE})
        is_ = {
            "owner": {ANYONE, OWNER, MEMBER},
            "owner with a token to read": {ANYONE, OWNER, MEMBER},
            "member": {ANYONE, MEMBER},
            "manager": {ANYONE, MEMBER, MANAGER},
            "administrator": {ANYONE, ADMIN},
        }.get(who, {ANYONE})
        if self.full_login and who == "administrator without the scope":
            return False
        return bool(is_ & self.may) and self.scope in scopes

    def _passes_session(self, who: str) -> bool:
        is_ = {"owner": {ANYONE, OWNER, MEMBER}, "manager": {ANYONE, MEMBER, MANAGER}}
        if not self.session or (self.session == OWN and OWNER in self.may and who != "owner"):
            return False
        return bool(is_.get(who, {ANYONE}) & self.may)


def _route(*may: str, scope: Scope = Scope.READ, **fields: Any) -> Route:
    return Route(frozenset(may), scope, **fields)


def reads(*may: str, **fields: Any) -> Route:
    """Return a route that only reads."""
    return _route(*may, **fields)


def writes(*may: str, **fields: Any) -> Route:
    """Return a route that changes something."""
    return _route(*may, scope=Scope.WRITE, **fields)


def administers(**fields: Any) -> Route:
    """Return a route for administrators alone."""
    return _route(ADMIN, scope=Scope.ADMIN, **fields)


OLD = "correct horse battery staple"
NEW = "incorrect donkey charger paperclip"
NOT_FOR_YOU = frozenset({401, 403})
"""The statuses that refuse a caller; a permitted one hears that the token is unknown."""
JOB = {"name": "digits", "project": "vision", "commands": ["true"]}
SHA = "0" * 64
SEEN = (OWNER, MEMBER, ADMIN)
IMAGE = {
    "name": "other",
    "version": "1.0",
    "artifacts": [
        {"runtime": "apptainer", "digest": f"sha256:{SHA}", "size_bytes": 1, "path": "/none.sif"}
    ],
}

ROUTES: dict[str, Route] = {
    # Logging in.
    "login": reads(PUBLIC, body={"username": "ada", "password": OLD}),
    # The token is unknown to the platform, which every caller hears.
    "use_login_link": reads(PUBLIC, body={"token": "unknown"}, refused=frozenset()),
    "logout": reads(PUBLIC),
    "list_login_sources": reads(PUBLIC),
    "finish_login": reads(
        PUBLIC, body={"ticket": "unknown", "code": "000000"}, refused=frozenset()
    ),
    "start_login": reads(PUBLIC, refused=frozenset()),
    "end_login": reads(PUBLIC, refused=frozenset()),
    "reset_password": reads(
        PUBLIC, body={"token": "unknown", "password": NEW}, refused=frozenset()
    ),
    "create_login_link": writes(ANYONE, full_login=True),
    "begin_device_login": reads(PUBLIC, body={"name": "laptop"}),
    "redeem_device_login": reads(PUBLIC, body={"device_code": "unknown"}, refused=frozenset()),
    # The code is unknown to the platform, which every caller hears who may confirm one.
    "look_up_device_login": writes(ANYONE, body={"user_code": "BCD-FGH-JKL"}),
    "confirm_device_login": writes(ANYONE, body={"user_code": "BCD-FGH-JKL", "scopes": ["read"]}),
    "get_me": reads(ANYONE, session=ANY),
    "report_activity": reads(ANYONE),
    # Accounts.
    "list_tokens": reads(ANYONE),
    # With a token they are for administrators alone; each other user needs a login of the portal.
    "create_token": administers(body={"name": "mine", "scopes": ["read"]}),
    "delete_token": _route(),
    # Each user has secrets of the same names: what another calls changes none of ada's.
    "list_secrets": reads(ANYONE),
    "put_secret": writes(ANYONE, body={"value": "hidden"}),
    "delete_secret": writes(OWNER),
    "list_users": administers(),
    "create_user": administers(body={"name": "zoe"}),
    "get_user": reads(OWNER, ADMIN),
    "update_user": writes(OWNER, ADMIN, body={"display_name": "Ada"}),
    "get_protection": administers(),
    "create_reset_link": administers(),
    "unlock_user": administers(),
    "reset_second_factor": administers(),
    "sign_out_user": administers(),
    # A token is no browser's login, which is what this changes.
    "impersonate_user": _route(refused=REFUSED | {409}),
    "end_impersonation": _route(refused=REFUSED | {409}),
    # One's own account.
    "get_account": reads(ANYONE),
    "list_sign_ins": reads(ANYONE),
    "revoke_sign_ins": administers(),
    "revoke_sign_in": _route(),
    "change_password": writes(ANYONE, body={"password": NEW, "current_password": OLD}),
    # A token is refused with 409 for every caller.
    "reauthenticate": writes(ANYONE, body={"password": OLD}),
    "enrol_second_factor": administers(),
    "confirm_second_factor": administers(body={"code": "000000"}),
    # Refused without a code of the second factor, which no user has here.
    "renew_recovery_codes": _route(body={"code": "000000"}),
    "disable_second_factor": administers(body={"code": "000000"}),
    "get_portal_preferences": reads(ANYONE),
    "put_portal_preferences": writes(ANYONE, body={}),
    "get_job_views_preferences": reads(ANYONE),
    "put_job_views_preferences": writes(ANYONE, body={}),
    "get_last_launch_preferences": reads(ANYONE),
    "put_last_launch_preferences": writes(ANYONE, body={}),
    "get_templates_preferences": reads(ANYONE),
    "put_templates_preferences": writes(ANYONE, body={}),
    # Projects.
    "list_projects": reads(ANYONE, session=ANY),
    # Those of anybody but an administrator wait for approval.
    "create_project": writes(ANYONE, body={"name": "audio"}),
    "get_project": reads(MEMBER, ADMIN, session=ANY),
    "update_project": writes(MANAGER, ADMIN, body={"title": "Vision"}),
    "approve_project": administers(body={}),
    "decline_project": administers(body={"reason": "it is there already"}),
    "close_project": writes(MANAGER, ADMIN, body={}),
    "reopen_project": writes(MANAGER, ADMIN),
    "set_project_end": administers(body={"expires_at": None}),
    "ask_for_time": writes(MANAGER, ADMIN, body={"until": "2027-01-01T00:00:00Z"}),
    "set_project_budget": administers(body={}),
    "set_project_retention": writes(MANAGER, ADMIN, body={}),
    "list_members": reads(MEMBER, ADMIN),
    "put_member": writes(MANAGER, ADMIN, body={}),
    "remove_member": writes(MANAGER, ADMIN),
    "get_limits": reads(MEMBER, ADMIN, session=ANY),
    "set_limits": administers(body={"max_gpus": 4}),
    "set_own_limits": writes(MANAGER, ADMIN, body={"max_gpus": 2}),
    "project_usage": reads(MEMBER, ADMIN),
    "project_usage_csv": reads(MEMBER, ADMIN),
    "project_balance": reads(MEMBER, ADMIN),
    "project_report": reads(MEMBER, ADMIN),
    "project_waiting": reads(MEMBER, ADMIN),
    "list_invitations": writes(MANAGER, ADMIN),
    "create_invitation": writes(MANAGER, ADMIN, body={}),
    "revoke_invitation": writes(MANAGER, ADMIN),
    "preview_invitation": reads(PUBLIC, body={"token": "unknown"}, refused=frozenset()),
    "look_at_invitation": reads(PUBLIC, body={"token": "unknown"}, refused=frozenset()),
    "accept_invitation": writes(ANYONE, body={"token": "unknown"}, refused=NOT_FOR_YOU),
    "usage": reads(ANYONE),
    "compare_accounts": administers(),
    "sync_accounts": administers(body={"digest": SHA}),
    # Jobs.
    "plan_job": reads(MEMBER, ADMIN, body=JOB, refused=UNKNOWN_PROJECT, session=ANY),
    "create_job": writes(MEMBER, ADMIN, body=JOB, refused=UNKNOWN_PROJECT, session=ANY),
    "create_jobs": writes(
        ANYONE, body={"items": [{"name": "digits", "commands": ["true"]}]}, session=ANY
    ),
    "list_jobs": reads(ANYONE, session=ANY),
    "get_job": reads(*SEEN, session=OWN),
    "cancel_job": writes(OWNER, ADMIN, session=OWN),
    "extend_job": writes(OWNER, ADMIN, body={"duration": "1m"}),
    "hold_job": writes(OWNER, ADMIN, session=OWN),
    "release_job": writes(OWNER, ADMIN, session=OWN),
    "change_job": writes(OWNER, ADMIN, body={"max_parallel": 1}, session=OWN),
    "resubmit_job": writes(OWNER, session=OWN),
    "get_job_queue": reads(*SEEN, session=OWN),
    "get_job_failure": reads(*SEEN, session=OWN),
    "get_job_record": reads(*SEEN, session=OWN),
    "get_job_script": reads(*SEEN, session=OWN),
    "get_job_notebook": reads(*SEEN, kind="notebook", session=OWN),
    "get_job_notebook_page": reads(*SEEN, kind="notebook", session=OWN),
    "get_job_metrics": reads(*SEEN, session=OWN),
    "get_job_rank_metrics": reads(*SEEN, session=OWN),
    "get_job_profile": reads(*SEEN, session=OWN),
    "get_job_placement": reads(*SEEN, session=OWN),
    "get_job_events": reads(*SEEN, session=OWN),
    "get_job_logs": reads(*SEEN, session=OWN),
    "count_jobs": reads(ANYONE, session=ANY),
    "cancel_jobs": writes(ANYONE, body={"ids": []}, session=ANY),
    "delete_job": writes(OWNER, ADMIN),
    "delete_jobs": writes(ANYONE, body={"ids": []}),
    "plan_resubmit": writes(OWNER, session=OWN),
    "get_job_snapshot": reads(*SEEN, session=OWN),
    "get_job_files": reads(*SEEN, session=OWN),
    "get_job_result": reads(OWNER, session=OWN),
    "get_file": reads(OWNER, session=OWN),
    "head_file": reads(OWNER, session=OWN),
    "get_job_results": reads(*SEEN, session=OWN),
    "get_job_sweep": reads(*SEEN, kind="sweep", session=OWN),
    "stop_job_sweep": writes(OWNER, ADMIN, kind="sweep", session=OWN),
    "compare_jobs": reads(*SEEN, session=OWN),
    "get_job_file": reads(*SEEN, session=OWN),
    "import_job": reads(ANYONE, body={"script": "#!/bin/sh\n#SBATCH -t 5\ntrue\n"}, session=ANY),
    "create_terminal": writes(OWNER, kind="session", body={}),
    "get_ssh": reads(ANYONE),
    # Sessions.
    "create_session": writes(
        MEMBER,
        ADMIN,
        body={"template": "jupyterlab", "project": "vision"},
        refused=UNKNOWN_PROJECT,
    ),
    "list_sessions": reads(ANYONE, session=ANY),
    "get_session": reads(*SEEN, kind="session", session=OWN),
    "open_session": writes(OWNER, kind="session"),
    "extend_session": writes(OWNER, ADMIN, kind="session", body={"duration": "1m"}),
    "relaunch_session": writes(OWNER, kind="session"),
    "stop_session": writes(OWNER, ADMIN, kind="session", session=OWN),
    "continue_session": writes(OWNER, kind="session"),
    "keep_session": writes(OWNER, ADMIN, kind="session"),
    "plan_ranks": writes(OWNER, kind="session", body={"ranks": 1}, session=OWN),
    "start_ranks": writes(OWNER, kind="session", body={"ranks": 1}, session=OWN),
    "list_ranks": reads(*SEEN, kind="session", session=OWN),
    "release_ranks": writes(OWNER, kind="session", session=OWN),
    "release_all_ranks": writes(OWNER, kind="session", session=OWN),
    # The catalogue.
    "list_images": reads(ANYONE, session=ANY),
    "register_image": administers(body=IMAGE),
    "get_image": reads(MEMBER, ADMIN, session=ANY),
    "update_image": administers(body={"state": "retired"}),
    "remove_image": administers(),
    "note_image_verification": administers(body={"damage": None}),
    "list_datasets": reads(ANYONE, session=ANY),
    "add_dataset": writes(
        MEMBER,
        ADMIN,
        body={
            "name": "other",
            "version": "1.0",
            "path": "/nowhere",
            "manifest": SHA,
            "project": "vision",
        },
    ),
    "upload_manifest": writes(ANYONE, body=b"no manifest"),
    "list_dataset_versions": reads(*SEEN, session=ANY),
    "get_dataset": reads(*SEEN, session=ANY),
    "update_dataset": writes(OWNER, ADMIN, body={"retired": True}),
    "get_dataset_manifest": reads(*SEEN, session=ANY),
    "grant_dataset": writes(OWNER, ADMIN),
    "revoke_dataset": writes(OWNER, MANAGER, ADMIN),
    "note_dataset_verification": writes(*SEEN, body={"manifest": SHA, "damaged_files": 0}),
    "get_tree_limits": reads(ANYONE, session=ANY),
    "put_tree": writes(ANYONE, body=b"no tree", session=ANY),
    # Each user has their own trees, and none of them has this one.
    "put_tree_blobs": writes(ANYONE, body=b"", refused=NOT_FOR_YOU, session=ANY),
    "get_storage": reads(ANYONE, session=ANY),
    "get_job_folders": reads(ANYONE, session=ANY),
    # The cluster.
    "list_templates": reads(ANYONE, session=ANY),
    "get_template": reads(ANYONE, session=ANY),
    "list_nodes": reads(ANYONE, session=ANY),
    "list_partitions": reads(ANYONE, session=ANY),
    "import_topology": administers(body={"content": "SwitchName=leaf0 Nodes=n1\n"}),
    "forget_topology": administers(),
    "drain_node": administers(body={"reason": "its fan is loud"}),
    "resume_node": administers(),
    "get_capacity": reads(ANYONE, session=ANY),
    "get_cluster_history": reads(ANYONE),
    "get_cluster_queues": reads(ANYONE, session=ANY),
    "get_cluster_topology": reads(ANYONE, session=ANY),
    "node_history": reads(ANYONE),
    # What people are told.
    "list_announcements": reads(ANYONE),
    "get_announcement": reads(ANYONE),
    "create_announcement": administers(body={"text": "New GPUs are here."}),
    "update_announcement": administers(body={"text": "New GPUs are here!"}),
    "delete_announcement": administers(),
    "dismiss_announcement": writes(ANYONE),
    "get_maintenance": reads(ANYONE),
    "set_maintenance": administers(body={}),
    "end_maintenance": administers(),
    "list_notifications": reads(ANYONE),
    "read_notifications": writes(ANYONE, body={}),
    "get_notification_settings": reads(ANYONE),
    "put_notification_settings": writes(ANYONE, body={"choices": {}}),
    "test_mail": writes(ANYONE),
    "list_mail_deliveries": reads(ANYONE),
    "list_webhooks": reads(ANYONE),
    "create_webhook": writes(ANYONE, body={"url": "https://hooks.example.org/aitne"}),
    "get_webhook": reads(OWNER),
    "update_webhook": writes(OWNER, body={"enabled": False}),
    "delete_webhook": writes(OWNER),
    "rotate_webhook": writes(OWNER),
    "test_webhook": writes(OWNER),
    "list_webhook_deliveries": reads(OWNER),
    # Only Alertmanager may, with a token of its own.
    "receive_alerts": _route(
        body={"version": "4", "groupKey": "x", "status": "firing", "alerts": []}
    ),
    # Administration.
    "list_drains": administers(),
    "list_audit": administers(),
    "export_audit": administers(),
    "check_audit": administers(),
    "get_health": administers(),
    "list_settings": administers(),
    "list_idle_gpus": administers(),
}

ENDLESS = frozenset({"stream_events"})
"""Their answer does not end; tests/unit/api/test_events.py asks them who may."""
