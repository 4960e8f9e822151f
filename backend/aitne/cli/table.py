"""The verbs and where each is defined; and where a command line's options belong."""

from __future__ import annotations

WORK, LOOK, OPERATE = "Work", "Look", "Operate"

VERBS: dict[str, tuple[str, str, str]] = {
    "session": ("session", WORK, "Start and list sessions."),
    "open": ("session", WORK, "Open a session, or the portal, in the browser."),
    "extend": ("session", WORK, "Give a session more time."),
    "apply": ("apply", WORK, "Submit a job file: show the plan, ask, submit."),
    "plan": ("apply", WORK, "Show what a job file would become."),
    "stop": ("jobs", WORK, "End jobs and sessions."),
    "ps": ("jobs", LOOK, "List jobs and sessions, newest first."),
    "logs": ("jobs", LOOK, "Print what a job printed."),
    "attach": ("jobs", LOOK, "Follow a job to its end, a session until it is ready."),
    "template": ("catalog", LOOK, "What can be launched."),
    "node": ("catalog", LOOK, "The nodes of the cluster."),
    "usage": ("usage", LOOK, "Show who has used how much in a month."),
    "up": ("platform", OPERATE, "Start a platform on this machine."),
    "down": ("platform", OPERATE, "End the platform on this machine."),
    "status": ("platform", OPERATE, "Show the platform and its processes."),
    "login": ("login", OPERATE, "Log in to a platform and remember it."),
    "admin": ("admin", OPERATE, "Run the platform: accounts, projects, nodes."),
    "dev": ("dev", OPERATE, "Develop on Aitne: a Slurm on this machine."),
}
"""In the order of the help: the module below ``commands`` that defines each verb, the part of the
help it stands in, and what it does in a line. So the help costs no import of all of them."""

GROUPS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("session",): ("start", "ls"),
    ("template",): ("ls", "show"),
    ("node",): ("ls", "partitions"),
    ("admin",): ("user", "token", "project", "member", "sync", "node", "software"),
    ("admin", "node"): ("ls", "drain", "resume"),
    ("admin", "user"): ("ls", "create", "disable", "enable", "passwd"),
    ("admin", "project"): ("ls", "create", "show", "limits"),
    ("admin", "member"): ("ls", "add", "remove"),
    ("admin", "token"): ("create", "ls", "revoke"),
    ("dev",): ("cluster",),
    ("dev", "cluster"): ("up", "shell", "down", "status"),
}
"""Verbs of several words."""

GLOBAL = {"--url": True, "--data-dir": True, "--json": False}
"""The options that may stand before the verb too, and whether a value follows."""


def arrange(argv: list[str]) -> list[str]:
    """Move global options from before the verb to behind it, so that every verb finds its own.

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
    if tuple(words) in GROUPS and not rest:
        return [*words, "--help"]
    return [*words, *moved, *rest]
