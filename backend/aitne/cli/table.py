"""The verbs with their modules, and the position of global options."""

from __future__ import annotations

WORK, LOOK, OPERATE = "Work", "Look", "Operate"

VERBS: dict[str, tuple[str, str, str]] = {
    "session": ("session", WORK, "Start and list sessions."),
    "open": ("session", WORK, "Open a session, or the portal, in the browser."),
    "extend": ("session", WORK, "Give a session more time."),
    "keep": (
        "notifications",
        WORK,
        "Keep an idle session: it is not ended until it has been idle anew.",
    ),
    "apply": ("apply", WORK, "Submit a job file: show the plan, ask, submit."),
    "plan": ("apply", WORK, "Show what a job file would become."),
    "import": ("importing", WORK, "Make a job file from a batch script."),
    "attach": ("terminal", WORK, "Work in a running job: a shell, or a program, beside its own."),
    "ssh-config": (
        "ssh",
        WORK,
        "Let ssh, scp, rsync and editors reach your running jobs as JOB.aitne.",
    ),
    "ssh-proxy": (
        "ssh",
        WORK,
        "Carry one SSH connection to a running job; ssh itself starts it (see `aitne ssh-config`).",
    ),
    "resubmit": (
        "runs",
        WORK,
        "Run a job again as it was: show what has changed since, ask, submit.",
    ),
    "stop": ("jobs", WORK, "End jobs and sessions."),
    "ps": ("jobs", LOOK, "List jobs and sessions, newest first."),
    "logs": ("jobs", LOOK, "Print what a job printed."),
    "show": ("jobs", LOOK, "Show one job: what it does, why it waits, what would help."),
    "watch": ("jobs", LOOK, "Follow a job to its end, a session until it is ready."),
    "snapshot": ("runs", LOOK, "Show what a job ran on."),
    "files": ("runs", LOOK, "List the files that were changed in a job's folder while it ran."),
    "compare": ("runs", LOOK, "Show in what two runs differ."),
    "sweep": ("runs", LOOK, "Show what the tasks of a sweep have found, the best first."),
    "profile": ("jobs", LOOK, "Show how the ranks of a job exchange."),
    "template": ("catalog", LOOK, "What can be launched."),
    "node": ("catalog", LOOK, "The nodes of the cluster."),
    "image": ("image", LOOK, "What programs run in: list, show."),
    "dataset": ("datasets", LOOK, "Data that jobs read: list, add, share, verify."),
    "secret": (
        "secrets",
        WORK,
        "Values that jobs get as environment variables: set, list, delete.",
    ),
    "project": ("project", WORK, "Projects: ask for one, lead it, join one."),
    "usage": ("usage", LOOK, "Show who has used how much in a month."),
    "announce": ("announce", LOOK, "What people should know: read, tell, change, take away."),
    "notifications": ("notifications", LOOK, "What you were told: list, mark as read."),
    "webhook": (
        "notifications",
        LOOK,
        "URLs that are told what you are told: list, add, test, remove.",
    ),
    "storage": ("storage", LOOK, "Show your folders, their space and quotas."),
    "up": ("platform", OPERATE, "Start a platform on this machine."),
    "down": ("platform", OPERATE, "End the platform on this machine."),
    "status": ("platform", OPERATE, "Show the platform and its processes."),
    "login": ("login", OPERATE, "Log in to a platform and remember it."),
    "account": ("accounts", OPERATE, "Your own account."),
    "admin": ("admin", OPERATE, "Run the platform: accounts, projects, nodes."),
    "dev": ("dev", OPERATE, "Develop on Aitne: a Slurm on this machine."),
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
