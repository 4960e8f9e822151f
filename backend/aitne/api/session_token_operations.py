"""Operations that a session token permits.

A session token is in the environment of every program of a session, so it permits what programs
there need to run further jobs of the session's owner, and nothing that would outlive the session or
change the account. An operation that is not listed is refused; which objects the listed ones
concern is decided by ``aitne.core.users.permissions``.
"""

from __future__ import annotations

from fastapi import Request

from aitne.core.errors import NotAllowed
from aitne.core.models.user import Actor
from aitne.core.users.permissions import describe_session_refusal

OPERATIONS = frozenset(
    {
        # Who the token acts as, and what there is to choose for a job.
        "get_me",
        "list_templates",
        "get_template",
        "list_nodes",
        "list_partitions",
        "get_capacity",
        "get_cluster_queues",
        "get_cluster_topology",
        "list_images",
        "get_image",
        "list_datasets",
        "list_dataset_versions",
        "get_dataset",
        "get_dataset_manifest",
        "get_storage",
        "get_job_folders",
        "list_projects",
        "get_project",
        "get_limits",
        # Submission.
        "import_job",
        "plan_job",
        "create_job",
        "create_jobs",
        "plan_resubmit",
        "resubmit_job",
        "get_tree_limits",
        "put_tree",
        "put_tree_blobs",
        # The owner's jobs.
        "list_jobs",
        "count_jobs",
        "get_job",
        "get_job_events",
        "get_job_failure",
        "get_job_file",
        "get_job_files",
        "get_file",
        "head_file",
        "get_job_logs",
        "get_job_metrics",
        "get_job_notebook",
        "get_job_notebook_page",
        "get_job_rank_metrics",
        "get_job_profile",
        "get_job_placement",
        "get_job_queue",
        "get_job_record",
        "get_job_result",
        "get_job_results",
        "get_job_script",
        "get_job_snapshot",
        "get_job_sweep",
        "compare_jobs",
        "stream_events",
        "list_sessions",
        "get_session",
        # Ranks of sessions.
        "plan_ranks",
        "start_ranks",
        "list_ranks",
        "release_ranks",
        "release_all_ranks",
        # The end of jobs.
        "cancel_job",
        "cancel_jobs",
        "hold_job",
        "release_job",
        "change_job",
        "stop_job_sweep",
        "stop_session",
    }
)
"""Operation IDs of the routes that a session token may use."""


def check_operation(request: Request, actor: Actor) -> None:
    """Check that the route may be used with the credential of ``actor``.

    Raises ``NotAllowed`` if it is a session token and the route is not for it.
    """
    operation = getattr(request.scope.get("route"), "name", None)
    if actor.session is not None and operation not in OPERATIONS:
        raise NotAllowed(describe_session_refusal(f"permit this ({operation})"))
