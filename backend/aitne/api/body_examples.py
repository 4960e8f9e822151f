"""A complete request body for each operation that takes one, for the OpenAPI document.

A field's own examples show how the field is written; these show a whole request. A test validates
each of them with the operation's model, so that none becomes outdated.
"""

from __future__ import annotations

from typing import Any

_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_JOB = {
    "type": "job",
    "name": "train",
    "project": "vision",
    "image": "pytorch:2.7",
    "commands": ["python train.py --lr $LR"],
    "env": {"LR": "0.01"},
    "resources": {"nodes": 1, "cpu": 8, "memory": "32G", "gpu": "a100:1"},
    "max_duration": "4h",
}
_SESSION = {
    "template": "jupyterlab",
    "name": "A look at the data",
    "resources": {"cpu": 2, "memory": "8G"},
    "max_duration": "4h",
}
_RANKS = {"ranks": 16, "nodes": 4, "gpu": "a100", "max_duration": "2h", "idle": "15m"}
_LIMITS = {"max_gpus": 8, "max_cpus": 128, "max_memory_bytes": "512G", "max_wall_s": "2d"}
_CODE = {"code": "123456"}
_INVITATION = {"token": "q0Jp3mXnT2s"}
_BUDGET = {"gpu_hours": 500, "cpu_hours": 20_000, "period": "month"}

BODY_EXAMPLES: dict[str, Any] = {
    "login": {"username": "ada", "password": "a sentence is a good one"},
    "finish_login": {"ticket": "tk_3mXnT2s", **_CODE},
    "use_login_link": {"token": "q0Jp3mXnT2s"},
    "reset_password": {"token": "q0Jp3mXnT2s", "password": "a sentence is a good one"},
    "change_password": {
        "password": "a sentence is a good one",
        "current_password": "the sentence until now",
    },
    "confirm_second_factor": _CODE,
    "renew_recovery_codes": _CODE,
    "disable_second_factor": _CODE,
    "reauthenticate": {"password": "a sentence is a good one"},
    "create_token": {"name": "laptop", "scopes": ["read", "write"], "expires_in": "30d"},
    "begin_device_login": {"name": "aitne login on laptop"},
    "redeem_device_login": {"device_code": "WyJxMEpwM21YblQycyJd.0f3c"},
    "look_up_device_login": {"user_code": "BCD-FGH-JKL"},
    "confirm_device_login": {"user_code": "BCD-FGH-JKL", "expires_in": "90d"},
    "put_secret": {"value": "0123456789abcdef"},
    "create_user": {
        "name": "ada",
        "password": "a sentence is a good one",
        "display_name": "Ada Lovelace",
        "role": "user",
        "default_project": "vision",
    },
    "update_user": {"display_name": "Ada Lovelace", "role": "user"},
    "create_project": {
        "name": "vision",
        "title": "Computer vision",
        "description": "Where machines learn to see.",
        "reason": "A new grant.",
        "expires_at": "2035-12-31T23:00:00Z",
    },
    "update_project": {"title": "Computer vision", "description": "Where machines learn to see."},
    "approve_project": {"expires_at": "2035-12-31T23:00:00Z", "budget": _BUDGET, "limits": _LIMITS},
    "decline_project": {"reason": "The same work continues in `vision`."},
    "close_project": {"reason": "The grant is over."},
    "set_project_end": {"expires_at": "2035-12-31T23:00:00Z"},
    "ask_for_time": {"until": "2035-12-31T23:00:00Z", "reason": "The grant continues for a year."},
    "set_project_budget": _BUDGET,
    "set_project_retention": {"keep_jobs": "30d", "keep_failed_jobs": "90d"},
    "put_member": {"role": "member", "limits": {"max_gpus": 2}},
    "set_limits": _LIMITS,
    "set_own_limits": _LIMITS,
    "sync_accounts": {"digest": _SHA256},
    "create_invitation": {"role": "member", "max_uses": 20, "lifetime": "7d"},
    "preview_invitation": _INVITATION,
    "look_at_invitation": _INVITATION,
    "accept_invitation": _INVITATION,
    "plan_job": _JOB,
    "create_job": _JOB,
    "create_jobs": {"items": [_JOB]},
    "cancel_jobs": {"filter": {"owner": "ada", "state": ["QUEUED"]}, "expected": 12},
    "delete_jobs": {"filter": {"owner": "ada", "state": ["FAILED"]}, "expected": 12},
    "create_session": _SESSION,
    "plan_ranks": _RANKS,
    "start_ranks": _RANKS,
    "resubmit_job": {"memory": "16G"},
    "extend_job": {"duration": "1h"},
    "change_job": {"max_parallel": 8},
    "extend_session": {"duration": "1h"},
    "register_image": {
        "name": "pytorch",
        "version": "2.7",
        "description": "PyTorch with CUDA 12.6 and JupyterLab.",
        "apps": {"jupyterlab": {"kind": "jupyterhub", "python": "/opt/venv/bin/python"}},
        "needs": {"cuda": "12.6"},
        "artifacts": [{"runtime": "docker", "digest": f"sha256:{_SHA256}", "size_bytes": 6 << 30}],
        "packages": [{"source": "python", "name": "torch", "version": "2.7.0"}],
        "projects": ["vision"],
    },
    "update_image": {"state": "retired"},
    "note_image_verification": {"damage": None},
    "add_dataset": {
        "name": "imagenet",
        "version": "2012",
        "description": "1.3 million pictures in 1000 classes.",
        "licence": "For research",
        "path": "/data/imagenet/2012",
        "project": "vision",
        "manifest": _SHA256,
    },
    "update_dataset": {"retired": True},
    "note_dataset_verification": {"manifest": _SHA256, "damaged_files": 0},
    "put_portal_preferences": {"language": "de", "theme": "auto"},
    "put_job_views_preferences": {
        "columns": ["name", "state", "gpu"],
        "views": [{"name": "Failed this week", "search": {"state": ["FAILED"]}}],
    },
    "put_last_launch_preferences": {
        "items": [
            {"title": "train", "file": _JOB, "launched_at": "2026-01-31T14:00:00Z"},
        ]
    },
    "put_templates_preferences": {
        "pinned": ["jupyterlab"],
        "presets": [{"name": "Long", "file": {"template": "batch", "max_duration": "3d"}}],
    },
    "import_job": {"script": "#!/bin/bash\n#SBATCH --gpus=1\npython train.py\n"},
    "drain_node": {"reason": "A fan is broken."},
    "import_topology": {"content": "SwitchName=leaf0 Nodes=gpu[01-08]\n"},
    "create_announcement": {
        "text": "The file system is slow until noon.",
        "severity": "warning",
        "ends_at": "2026-01-31T12:00:00Z",
    },
    "update_announcement": {"text": "The file system is as fast as ever.", "severity": "info"},
    "set_maintenance": {
        "starts_at": "2026-01-31T08:00:00Z",
        "ends_at": "2026-01-31T12:00:00Z",
        "message": "New network switches",
    },
    "create_terminal": {"node": "gpu03"},
    "read_notifications": {"ids": [17, 18]},
    "put_notification_settings": {
        "choices": {"job_finished": {"mail": True}},
        "mail": "ada@example.org",
    },
    "create_webhook": {"url": "https://hooks.example.org/aitne"},
    "update_webhook": {"enabled": False},
    "receive_alerts": {
        "version": "4",
        "groupKey": '{}:{alertname="AitneDiskFull"}',
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": {"alertname": "AitneDiskFull", "severity": "critical"},
                "annotations": {"summary": "The disk of data_dir is nearly full"},
                "startsAt": "2026-03-01T12:00:00Z",
                "fingerprint": "c2a8f1b3d4e5f607",
            }
        ],
    },
}
