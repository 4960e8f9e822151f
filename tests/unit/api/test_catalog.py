"""Images and datasets over HTTP, as they are used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from aitne.core.dataset_manifest import decompress_manifest, summarize_manifest
from aitne.core.models.audit import AuditFilter
from tests.support.catalog_stage import PHOTO, Catalogue, manifest_of


async def test_an_image_is_taken_in_and_offered(catalogue: Catalogue) -> None:
    sif = catalogue.sif(content=b"squashed")
    body = {
        "name": "jupyter",
        "version": "1.0",
        "description": "JupyterLab",
        "apps": {"lab": {"python": "/opt/jupyter/bin/python"}},
        "needs": {"cuda": "12.6"},
        "env": {"OMP_NUM_THREADS": "1"},
        "artifacts": [{"runtime": "apptainer", "digest": sif.digest, "path": sif.path}],
        "packages": [{"name": "bash", "version": "5.2", "source": "debian"}],
        "projects": ["vision"],
    }
    async with catalogue.client("administrator") as client:
        made = await client.post("/api/v1/images", json=body)
        assert made.status_code == 201, made.text
        assert made.headers["location"] == "/api/v1/images/jupyter/1.0"
        (artifact,) = made.json()["artifacts"]
        found = Path(sif.path or "").stat()
        assert (artifact["size_bytes"], artifact["mtime_ns"]) == (8, found.st_mtime_ns)
        # The same once more, as after an answer that was lost; and the same for Docker.
        assert (await client.post("/api/v1/images", json=body)).json() == made.json()
        docker = {"runtime": "docker", "digest": f"sha256:{'d' * 64}", "size_bytes": 9}
        both = await client.post("/api/v1/images", json=body | {"artifacts": [docker]})
        assert [each["runtime"] for each in both.json()["artifacts"]] == ["apptainer", "docker"]
        other = docker | {"digest": f"sha256:{'e' * 64}"}
        clash = await client.post("/api/v1/images", json=body | {"artifacts": [other]})
        assert (clash.status_code, clash.json()["code"]) == (409, "conflict")
    async with catalogue.client("member") as client:
        (listed,) = (await client.get("/api/v1/images")).json()["items"]
        assert (listed["packages"], listed["needs"]) == ([], {"cuda": "12.6"})
        shown = (await client.get("/api/v1/images/jupyter/1.0")).json()
        assert shown["packages"] == body["packages"]


async def test_an_image_is_retired_kept_and_removed(catalogue: Catalogue) -> None:
    await catalogue.put_image("base")
    path = "/api/v1/images/base/1.0"
    async with catalogue.client("administrator") as client, catalogue.client("member") as bob:
        assert (await client.delete(path)).status_code == 409
        retired = await client.patch(path, json={"state": "retired"})
        assert retired.json()["state"] == "retired"
        assert (await bob.get("/api/v1/images")).json()["items"] == []
        assert (await bob.get(path)).json()["state"] == "retired"
        await client.patch(path, json={"state": "offered"})
        damaged = await client.post(f"{path}/verification", json={"damage": "its file is gone"})
        assert damaged.json()["damage"] == "its file is gone"
        assert (await bob.get("/api/v1/images")).json()["items"] == []
        well = await client.post(f"{path}/verification", json={"damage": None})
        assert well.json()["damage"] is None
        assert len((await bob.get("/api/v1/images")).json()["items"]) == 1
        nobody = await client.patch(path, json={"projects": ["nobody"]})
        assert (nobody.status_code, nobody.json()["code"]) == (404, "not_found")
        await client.patch(path, json={"state": "retired"})
        removed = await client.delete(path)
        assert [each["path"] for each in removed.json()["items"]] == ["/images/base-1.0.sif"]
        assert (await client.get(path)).status_code == 404


async def test_a_dataset_is_added_once_its_manifest_is_there(catalogue: Catalogue) -> None:
    digest, packed = manifest_of(**{"one.jpg": PHOTO, "two.jpg": b""})
    folder = catalogue.photos()
    body = {
        "name": "photos",
        "version": "1.0",
        "description": "Ours",
        "licence": "CC0",
        "path": f"{folder}/",
        "manifest": digest,
    }
    async with catalogue.client("owner") as client:
        first = await client.post("/api/v1/datasets", json=body)
        assert (first.status_code, first.json()["code"]) == (409, "manifest_missing")
        assert (await client.get("/api/v1/datasets")).json()["items"] == []
        for _ in range(2):
            upload = await client.put(f"/api/v1/manifests/{digest}", content=packed)
            assert upload.status_code == 201
            assert upload.json() == {
                "digest": digest,
                "files": 2,
                "links": 0,
                "size_bytes": len(PHOTO),
            }
        made = await client.post("/api/v1/datasets", json=body)
        assert made.status_code == 201, made.text
        found = made.json()
        assert (found["owner"], found["projects"]) == ("ada", ["vision"])
        assert (found["files"], found["size_bytes"]) == (2, len(PHOTO))
        assert found["path"] == str(folder)
        again = await client.post("/api/v1/datasets", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
        assert "Choose another version" in again.json()["detail"]
        # The same files as another version need no second upload.
        later = await client.post("/api/v1/datasets", json=body | {"version": "1.1"})
        assert later.status_code == 201
    recorded = await catalogue.stage.store.list_audit_entries_after(
        0, AuditFilter(action="add_dataset")
    )
    assert [entry.object for entry in recorded if entry.outcome == "allowed"] == [
        "photos/1.0",
        "photos/1.1",
    ]
    async with catalogue.client("member") as client:
        versions = (await client.get("/api/v1/datasets/photos")).json()["items"]
        assert {each["version"] for each in versions} == {"1.0", "1.1"}
        answer = await client.get("/api/v1/datasets/photos/1.0/manifest")
        assert answer.headers["content-type"] == "application/gzip"
        assert (
            summarize_manifest(decompress_manifest([answer.content], most_bytes=1 << 20)).digest
            == digest
        )


async def test_a_dataset_is_shared_verified_and_retired(catalogue: Catalogue) -> None:
    await catalogue.add_dataset("photos")
    path = "/api/v1/datasets/photos/1.0"
    async with catalogue.client("owner") as ada, catalogue.client("member") as bob:
        digest = (await bob.get(path)).json()["manifest"]
        noted = await bob.post(
            f"{path}/verification", json={"manifest": digest, "damaged_files": 2}
        )
        assert (noted.json()["verified_by"], noted.json()["damaged_files"]) == ("bob", 2)
        other = await bob.post(
            f"{path}/verification", json={"manifest": "0" * 64, "damaged_files": 0}
        )
        assert other.status_code == 409
        assert (await ada.delete(f"{path}/projects/vision")).json()["projects"] == []
        assert (await bob.get(path)).status_code == 404
        assert (await ada.delete(f"{path}/projects/vision")).status_code == 404
        assert (await ada.put(f"{path}/projects/vision")).json()["projects"] == ["vision"]
        assert (await bob.get(path)).status_code == 200
        assert (await ada.patch(path, json={"retired": True})).json()["retired"] is True
        assert (await bob.get(path)).json()["retired"] is True


async def test_a_second_upload_at_the_same_time_is_told_when_to_come_again(
    catalogue: Catalogue,
) -> None:
    digest, packed = manifest_of(one=b"1")
    async with catalogue.client("owner") as client:

        async def meanwhile() -> AsyncIterator[bytes]:
            yield packed[:5]
            second = await client.put(f"/api/v1/manifests/{digest}", content=packed)
            assert (second.status_code, second.json()["code"]) == (429, "rate_limited")
            assert int(second.headers["retry-after"]) > 0
            yield packed[5:]

        first = await client.put(f"/api/v1/manifests/{digest}", content=meanwhile())
        assert first.status_code == 201, first.text
