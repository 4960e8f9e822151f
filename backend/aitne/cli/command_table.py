"""Commands of the command line. Written by ``scripts/gen_commands.py``: run ``make gen``."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str | None, str]] = {
    "session": ("aitne.cli.commands.session", "Work", "Start and list sessions."),
    "ranks": (
        "aitne.cli.commands.ranks",
        "Work",
        "Start, list and release ranks for the notebook of a session.",
    ),
    "open": (
        "aitne.cli.commands.session",
        "Work",
        "Open a session, or the portal, in the browser.",
    ),
    "extend": (
        "aitne.cli.commands.session",
        "Work",
        "Extend the time limit of a running job or session.",
    ),
    "keep": ("aitne.cli.commands.session", "Work", "Keep an idle session from being stopped."),
    "apply": ("aitne.cli.commands.apply", "Work", "Submit job files: show the plan, ask, submit."),
    "batch": (
        "aitne.cli.commands.notebook_batch",
        "Work",
        "Run a notebook as a job: show the plan, ask, submit.",
    ),
    "plan": ("aitne.cli.commands.apply", "Work", "Show the job that a job file would create."),
    "import": ("aitne.cli.commands.import_script", "Work", "Convert a batch script to a job file."),
    "attach": (
        "aitne.cli.commands.attach",
        "Work",
        "Open a shell, or run a program, in a running job.",
    ),
    "ssh-config": (
        "aitne.cli.commands.ssh_config",
        "Work",
        "Let ssh, scp, rsync and editors reach your running jobs as JOB.aitne.",
    ),
    "ssh-proxy": (
        "aitne.cli.commands.ssh_config",
        "Work",
        "Forward one SSH connection to a running job. The lines of `aitne ssh-config` call it.",
    ),
    "get": ("aitne.cli.commands.get", "Work", "Download files of a job, or list them."),
    "resubmit": (
        "aitne.cli.commands.job_runs",
        "Work",
        "Submit a job again: show what has changed, ask, submit.",
    ),
    "hold": ("aitne.cli.commands.hold", "Work", "Hold a pending job until it is released."),
    "release": (
        "aitne.cli.commands.hold",
        "Work",
        "Release a held job, or the held tasks of an array job.",
    ),
    "throttle": (
        "aitne.cli.commands.hold",
        "Work",
        "Set how many tasks of an array job run at once.",
    ),
    "stop": ("aitne.cli.commands.existing_jobs", "Work", "Cancel jobs and stop sessions."),
    "rm": (
        "aitne.cli.commands.job_deletion",
        "Work",
        "Delete jobs that have ended, with their logs, metrics and folders.",
    ),
    "ps": ("aitne.cli.commands.existing_jobs", "Look", "List jobs and sessions, newest first."),
    "logs": ("aitne.cli.commands.existing_jobs", "Look", "Print the log of a job."),
    "show": (
        "aitne.cli.commands.existing_jobs",
        "Look",
        "Show a job: state, reason why it is pending or failed, advice.",
    ),
    "watch": (
        "aitne.cli.commands.existing_jobs",
        "Look",
        "Watch a job until it ends, or a session until it is ready.",
    ),
    "snapshot": (
        "aitne.cli.commands.job_runs",
        "Look",
        "Show the code, environment and host of a job.",
    ),
    "compare": (
        "aitne.cli.commands.job_runs",
        "Look",
        "Compare two jobs or array tasks, and show what differs between them.",
    ),
    "sweep": ("aitne.cli.commands.job_runs", "Look", "Show the results of a sweep, best first."),
    "profile": (
        "aitne.cli.commands.existing_jobs",
        "Look",
        "Show the communication profile of a job's ranks.",
    ),
    "template": (
        "aitne.cli.commands.template",
        "Look",
        "List and show templates of sessions and jobs.",
    ),
    "node": ("aitne.cli.commands.node", "Look", "List nodes, partitions and GPUs of the cluster."),
    "topology": (
        "aitne.cli.commands.topology",
        "Look",
        "Show the topology of the cluster, and compute orders of ranks.",
    ),
    "image": ("aitne.cli.commands.image", "Look", "List and show container images."),
    "dataset": ("aitne.cli.commands.dataset", "Look", "List, add, share and verify datasets."),
    "secret": (
        "aitne.cli.commands.secret",
        "Work",
        "Set, list and delete secrets, which jobs get as environment variables.",
    ),
    "project": ("aitne.cli.commands.project", "Work", "Request, manage and join projects."),
    "usage": ("aitne.cli.commands.usage", "Look", "Show the usage of a month by user."),
    "announce": (
        "aitne.cli.commands.announce",
        "Look",
        "List, publish, edit and remove announcements.",
    ),
    "notifications": (
        "aitne.cli.commands.notifications",
        "Look",
        "List notifications, mark them as read, and change the settings.",
    ),
    "webhook": (
        "aitne.cli.commands.webhook",
        "Look",
        "List, add, test and remove webhooks for your notifications.",
    ),
    "storage": ("aitne.cli.commands.storage", "Look", "Show your folders, their space and quotas."),
    "up": ("aitne.cli.commands.platform_lifecycle", "Operate", "Start a platform on this machine."),
    "down": (
        "aitne.cli.commands.platform_lifecycle",
        "Operate",
        "Stop the platform on this machine.",
    ),
    "restart": (
        "aitne.cli.commands.platform_lifecycle",
        "Operate",
        "Restart one process of the platform on this machine.",
    ),
    "status": (
        "aitne.cli.commands.platform_lifecycle",
        "Operate",
        "Show the platform and its processes.",
    ),
    "login": ("aitne.cli.commands.login", "Operate", "Log in to a platform and remember it."),
    "account": ("aitne.cli.commands.account", "Operate", "Your own account."),
    "admin": (
        "aitne.cli.commands.admin",
        "Operate",
        "Administer the platform: users, projects, nodes.",
    ),
    "dev": (
        "aitne.cli.commands.dev_cluster",
        "Operate",
        "Run a Slurm cluster on this machine, for developers.",
    ),
    "admin setup": (
        "aitne.cli.commands.admin.setup",
        None,
        "Write settings, units and the reverse proxy's files, after an inspection of this machine.",
    ),
    "admin doctor": (
        "aitne.cli.commands.admin.doctor",
        None,
        "Check the platform, its host and its cluster, and name the cause and the remedy of each problem.",
    ),
    "admin accept": (
        "aitne.cli.commands.admin.accept",
        None,
        "Test a site through its API as one of its users, and write a report for an issue.",
    ),
    "admin health": (
        "aitne.cli.commands.admin.health",
        None,
        "Show the state of every part of the platform. Exit status 1 means that one is down.",
    ),
    "admin settings": (
        "aitne.cli.commands.admin.settings",
        None,
        "Show the settings and the source of each value. Secrets are masked.",
    ),
    "admin backup": (
        "aitne.cli.commands.admin.backup",
        None,
        "Back up the platform into one file, while it runs and jobs run.",
    ),
    "admin verify": (
        "aitne.cli.commands.admin.backup",
        None,
        "Check that a backup is complete and unchanged, and that this release can restore it.",
    ),
    "admin restore": (
        "aitne.cli.commands.admin.backup",
        None,
        "Restore a backup. The platform must not run; `aitne up` starts it afterwards.",
    ),
    "admin upgrade": (
        "aitne.cli.commands.admin.upgrade",
        None,
        "Upgrade the platform to the next minor release; jobs and sessions continue.",
    ),
    "admin bundle": (
        "aitne.cli.commands.admin.offline_bundle",
        None,
        "Pack this release with all its packages into one file, for a host without internet.",
    ),
    "admin sync": (
        "aitne.cli.commands.admin.sync",
        None,
        "Compare the projects with Slurm's accounts, and synchronize Slurm.",
    ),
    "admin software": (
        "aitne.cli.commands.admin.software",
        None,
        "Install the software for Slurm's nodes into [slurm] software_dir.",
    ),
    "admin user": ("aitne.cli.commands.admin.user", None, "Accounts."),
    "admin token": ("aitne.cli.commands.admin.token", None, "Personal access tokens."),
    "admin project": (
        "aitne.cli.commands.admin.project",
        None,
        "List, create, limit, approve and decline projects.",
    ),
    "admin member": (
        "aitne.cli.commands.admin.member",
        None,
        "List, add and remove the members of a project.",
    ),
    "admin node": (
        "aitne.cli.commands.admin.node",
        None,
        "Drain and resume nodes, and show their history.",
    ),
    "admin topology": (
        "aitne.cli.commands.admin.topology",
        None,
        "Import descriptions of the network and of nodes, and check them against the scheduler.",
    ),
    "admin image": (
        "aitne.cli.commands.admin.image",
        None,
        "Build, import, share, verify and remove images.",
    ),
    "admin audit": (
        "aitne.cli.commands.admin.audit",
        None,
        "List, export and verify the audit log.",
    ),
    "admin ca": (
        "aitne.cli.commands.admin.ca",
        None,
        "Manage the platform's certificate authority (CA), for [tls].",
    ),
    "admin maintenance": (
        "aitne.cli.commands.admin.maintenance",
        None,
        "Maintenance: new jobs are held, running jobs continue.",
    ),
    "account sessions": (
        "aitne.cli.commands.account",
        None,
        "List the browsers in which you are logged in, or log them out.",
    ),
    "dev cluster": (
        "aitne.cli.commands.dev_cluster",
        None,
        "Start, use and stop a real Slurm on this machine, with fake GPUs.",
    ),
}
"""By the words of the command line, in the order of the help: the module that defines the command
or group, its section of the help, and its summary. The help therefore imports none of them."""

GROUPS = {
    "session": True,
    "ranks": True,
    "template": True,
    "node": True,
    "topology": True,
    "image": True,
    "dataset": True,
    "secret": True,
    "project": True,
    "usage": False,
    "announce": True,
    "notifications": True,
    "webhook": True,
    "account": True,
    "admin": True,
    "dev": True,
    "admin backup": False,
    "admin user": True,
    "admin token": True,
    "admin project": True,
    "admin member": True,
    "admin node": True,
    "admin topology": True,
    "admin image": True,
    "admin audit": True,
    "admin ca": True,
    "admin maintenance": True,
    "account sessions": True,
    "dev cluster": True,
}
"""The groups, and whether they need one of their commands."""
