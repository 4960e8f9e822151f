"""The command `image`, and the visibility of images."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_api import FakeApi
from tests.unit.cli.conftest import Aitne

DIGEST = f"sha256:{'ab' * 32}"


def image(**changes: Any) -> dict[str, Any]:
    return {
        "name": "jupyter",
        "version": "1.0",
        "description": "JupyterLab \x1b[31m",
        "apps": {"lab": {"kind": "jupyterhub", "python": "/opt/jupyter/bin/python"}},
        "needs": {"cuda": "12.6"},
        "env": {"OMP_NUM_THREADS": "1"},
        "artifacts": [
            {
                "runtime": "apptainer",
                "digest": DIGEST,
                "size_bytes": 300 << 20,
                "path": "/srv/images/jupyter-1.0.sif",
                "mtime_ns": 1,
            },
            {
                "runtime": "docker",
                "digest": f"sha256:{'cd' * 32}",
                "size_bytes": 900 << 20,
                "path": None,
                "mtime_ns": None,
            },
        ],
        "packages": [],
        "state": "offered",
        "projects": [],
        "created_at": "2026-11-21T04:00:00Z",
        "created_by": "root",
        "verified_at": "2026-11-21T05:00:00Z",
        "damage": None,
        **changes,
    }


def test_the_list(api: FakeApi, aitne: Aitne) -> None:
    old = image(version="0.9", state="retired", projects=["vision"], needs={"cuda": None})
    api.on("GET", "/images", {"items": [image(), old]})
    done = aitne("image", "ls")
    assert done.status == 0, done.err
    new, retired = done.out.splitlines()[1:]
    for word in ("1.0", "apptainer docker", "900 MiB", "lab", "CUDA 12.6", "all users", "offered"):
        assert word in new
    assert "vision" in retired
    assert "retired" in retired
    assert "CUDA" not in retired
    assert aitne("image", "ls", "--json").json[1]["state"] == "retired"


def test_image_is_shown_with_digest_and_damage(api: FakeApi, aitne: Aitne) -> None:
    bill = [{"name": "bash", "version": "5.2.37-2", "source": "debian"}]
    api.on("GET", "/images/jupyter/1.0", image(packages=bill, damage="its file is gone"))
    done = aitne("image", "show", "jupyter:1.0")
    assert done.status == 0, done.err
    for text in (
        DIGEST,
        "/srv/images/jupyter-1.0.sif",
        "its file is gone",
        "damaged",
        "--packages",
    ):
        assert text in done.out
    assert "\x1b" not in done.out
    assert "5.2.37-2" not in done.out
    assert "5.2.37-2" in aitne("image", "show", "jupyter:1.0", "--packages").out


def test_a_name_alone_is_the_newest_that_is_offered(api: FakeApi, aitne: Aitne) -> None:
    versions = [image(version="2.0", damage="gone"), image(version="1.0"), image(version="0.9")]
    api.on("GET", "/images", {"items": versions})
    api.on("GET", "/images/jupyter/1.0", image())
    assert aitne("image", "show", "jupyter", "--json").json["version"] == "1.0"
    missing = aitne("image", "show", "torch")
    assert (missing.status, missing.out) != (0, "")
    assert "torch" in missing.err


CHANGES: list[tuple[list[str], list[str], list[str] | None]] = [
    (["grant", "jupyter:1.0", "nlp"], ["vision"], ["nlp", "vision"]),
    (["grant", "jupyter:1.0", "nlp"], ["nlp"], ["nlp"]),
    (["grant", "jupyter:1.0", "nlp", "--yes"], [], ["nlp"]),
    (["grant", "jupyter:1.0", "--all-users", "--yes"], ["nlp"], []),
    (["grant", "jupyter:1.0", "--everybody", "--yes"], ["nlp"], []),
    (["revoke", "jupyter:1.0", "nlp", "--yes"], ["nlp", "vision"], ["vision"]),
    (["revoke", "jupyter:1.0", "nlp", "--yes"], ["nlp"], None),
    (["revoke", "jupyter:1.0", "nlp", "--yes"], ["vision"], None),
    (["revoke", "jupyter:1.0", "nlp", "--yes"], [], None),
    (["grant", "jupyter:1.0"], [], None),
    (["grant", "jupyter:1.0", "nlp", "--all-users"], [], None),
]


@pytest.mark.parametrize(("words", "before", "after"), CHANGES)
def test_image_projects_are_changed_by_grant_and_revoke(
    api: FakeApi, aitne: Aitne, words: list[str], before: list[str], after: list[str] | None
) -> None:
    api.on("GET", "/images/jupyter/1.0", image(projects=before))
    api.on("PATCH", "/images/jupyter/1.0", image(projects=after))
    done = aitne("admin", "image", *words)
    sent = [each.json for each in api.sent("PATCH", "/images/jupyter/1.0")]
    assert sent == ([] if after is None else [{"projects": after}]), done.err
    assert (done.status == 0) is (after is not None)


def test_revoking_from_the_last_project_is_refused_with_advice(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/images/jupyter/1.0", image(projects=["nlp"]))
    done = aitne("admin", "image", "revoke", "jupyter:1.0", "nlp", "--yes")
    assert "--all-users" in done.err


def test_deprecated_option_of_grant_names_the_new_one(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/images/jupyter/1.0", image(projects=["nlp"]))
    api.on("PATCH", "/images/jupyter/1.0", image(projects=[]))
    words = ["admin", "image", "grant", "jupyter:1.0", "--yes"]
    assert "Use --all-users." in aitne(*words, "--everybody").err
    assert "deprecated" not in aitne(*words, "--all-users").err


@pytest.mark.parametrize(
    ("words", "before"), [(["nlp"], []), (["--all-users"], ["nlp"])], ids=["narrower", "wider"]
)
def test_a_large_change_is_asked_for(
    api: FakeApi, aitne: Aitne, words: list[str], before: list[str]
) -> None:
    api.on("GET", "/images/jupyter/1.0", image(projects=before))
    aitne("admin", "image", "grant", "jupyter:1.0", *words, typed="n\n")
    assert api.sent("PATCH", "/images/jupyter/1.0") == []
