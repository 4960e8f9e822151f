"""The verbs with their modules, and the position of global options."""

from __future__ import annotations

WORK, LOOK, OPERATE = "Work", "Look", "Operate"

VERBS: dict[str, tuple[str, str, str]] = {
    "session": ("session", WORK, "Start and list sessions."),
    "open": ("session", WORK, "Open a session, or the portal, in the browser."),
    "extend": ("session", WORK, "Extend the time limit of a session."),
    "keep": (
        "notifications",
        WORK,
        "Keep an idle session from being stopped.",
    ),
    "apply": ("apply", WORK, "Submit a job file: show the plan, ask, submit."),
    "plan": ("apply", WORK, "Show what a job file would become."),
    "import": ("importing", WORK, "Convert a batch script to a job file."),
    "attach": ("terminal", WORK, "Open a shell, or run a program, in a running job."),
    "ssh-config": (
        "ssh",
        WORK,
        "Let ssh, scp, rsync and editors reach your running jobs as JOB.aitne.",
    ),
    "ssh-proxy": (
        "ssh",
        WORK,
        "Forward one SSH connection to a running job, for `aitne ssh-config`.",
    ),
    "resubmit": (
        "runs",
        WORK,
        "Submit a job again: show what has changed, ask, submit.",
    ),
    "stop": ("jobs", WORK, "Cancel jobs and stop sessions."),
    "ps": ("jobs", LOOK, "List jobs and sessions, newest first."),
    "logs": ("jobs", LOOK, "Print the log of a job."),
    "show": ("jobs", LOOK, "Show a job: state, reason for waiting, advice."),
    "watch": ("jobs", LOOK, "Watch a job until it ends, a session until it is ready."),
    "snapshot": ("runs", LOOK, "Show the code, environment and host of a job."),
    "files": ("runs", LOOK, "List the files that were changed in a job's folder while it ran."),
    "compare": ("runs", LOOK, "Show the differences between two runs."),
    "sweep": ("runs", LOOK, "Show the results of a sweep, best first."),
    "profile": ("jobs", LOOK, "Show the communication profile of a job's ranks."),
    "template": ("catalog", LOOK, "Templates of sessions and jobs: list, show."),
    "node": ("catalog", LOOK, "Nodes of the cluster: list, partitions, GPUs."),
    "image": ("image", LOOK, "Container images: list, show."),
    "dataset": ("datasets", LOOK, "Datasets: list, add, share, verify."),
    "secret": (
        "secrets",
        WORK,
        "Secrets for jobs, as environment variables: set, list, delete.",
    ),
    "project": ("project", WORK, "Projects: request, manage, join."),
    "usage": ("usage", LOOK, "Show the usage of a month by user."),
    "announce": ("announce", LOOK, "Announcements: list, publish, edit, remove."),
    "notifications": ("notifications", LOOK, "Notifications: list, mark as read."),
    "webhook": (
        "notifications",
        LOOK,
        "Webhooks for your notifications: list, add, test, remove.",
    ),
    "storage": ("storage", LOOK, "Show your folders, their space and quotas."),
    "up": ("platform", OPERATE, "Start a platform on this machine."),
    "down": ("platform", OPERATE, "Stop the platform on this machine."),
    "status": ("platform", OPERATE, "Show the platform and its processes."),
    "login": ("login", OPERATE, "Log in to a platform and remember it."),
    "account": ("accounts", OPERATE, "Your own account."),
    "admin": ("admin", OPERATE, "Administer the platform: users, projects, nodes."),
    "dev": ("dev", OPERATE, "Tools for developers: a Slurm cluster on this machine."),
}
"""By name, in the order of the help: the module below ``commands`` that defines the verb, its
section of the help, and its summary. The help therefore imports none of them."""

GROUPS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("session",): ("start", "continue", "ls"),
    ("template",): ("ls", "show"),
    ("image",): ("ls", "show"),
    ("dataset",): ("ls", "show", "add", "verify", "grant", "revoke", "retire"),
    ("project",): (
        *("ls", "show", "create", "members", "limits", "add", "remove", "invite"),
        *("invitations", "revoke", "join", "close", "reopen", "extend", "waiting"),
    ),
    ("secret",): ("set", "ls", "rm"),
    ("usage",): ("report",),
    ("node",): ("ls", "partitions", "gpus"),
    ("admin",): (
        "user",
        "token",
        "project",
        "member",
        "sync",
        "node",
        "image",
        "software",
        "audit",
        "ca",
        "maintenance",
        "health",
        "settings",
    ),
    ("notifications",): ("ls", "read", "settings"),
    ("webhook",): ("ls", "add", "rotate", "enable", "test", "log", "rm"),
    ("announce",): ("ls", "create", "edit", "delete", "dismiss"),
    ("admin", "audit"): ("ls", "export", "verify"),
    ("admin", "ca"): ("init",),
    ("admin", "maintenance"): ("on", "off", "status"),
    ("admin", "node"): ("ls", "drain", "resume", "history"),
    ("admin", "image"): ("build", "import", "grant", "revoke", "verify", "retire", "gc"),
    ("account",): ("preferences", "sessions"),
    ("account", "sessions"): ("ls", "revoke"),
    ("admin", "user"): (
        *("ls", "create", "set", "disable", "enable", "passwd"),
        *("reset-link", "unlock", "reset-second-factor"),
    ),
    ("admin", "project"): (
        *("ls", "create", "show", "limits", "approve", "decline", "end", "budget"),
    ),
    ("admin", "member"): ("ls", "add", "remove"),
    ("admin", "token"): ("create", "ls", "revoke"),
    ("dev",): ("cluster",),
    ("dev", "cluster"): ("up", "shell", "down", "status"),
}
"""Verbs of several words."""

ALONE = {("usage",)}
"""Groups that are also verbs themselves."""

GLOBAL = {"--url": True, "--data-dir": True, "--json": False}
"""Options that may also precede the verb, and whether a value follows."""


def arrange(argv: list[str]) -> list[str]:
    """Move global options from before the verb to after it, where each verb parses them.

    ``--url U admin user ls`` -> ``admin user ls --url U``. A group without its verb asks for help.
    """
    rest = list(argv)
    moved: list[str] = []
    words: list[str] = []
    while rest:
        name, equals, _ = rest[0].partition("=")
        if name in GLOBAL:
            taken = 2 if GLOBAL[name] and not equals else 1
            moved += rest[:taken]
            del rest[:taken]
        elif not words or tuple(words) in GROUPS:
            if rest[0].startswith("-"):
                break
            words.append(rest.pop(0))
        else:
            break
    if tuple(words) in GROUPS and tuple(words) not in ALONE and not rest:
        return [*words, "--help"]
    return [*words, *moved, *rest]
