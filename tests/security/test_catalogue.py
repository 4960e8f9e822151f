"""Images and datasets: who may do what, who learns of what, and what hostile input does."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.dataset_manifest_store import MOST_WAITING, ManifestFolder
from aitne.core.dataset_manifest import HEADER, compress_manifest
from aitne.core.models.access_token import Scope
from tests.support.catalog_stage import PHOTO, ROLES, Catalogue, manifest_of

Body = dict[str, Any] | None
MANIFEST, PACKED = manifest_of(**{"one.jpg": PHOTO})
IMAGE, DATASET = "/images/closed/1.0", "/datasets/photos/1.0"
NEW_IMAGE = {
    "name": "new",
    "version": "1.0",
    "artifacts": [{"runtime": "docker", "digest": f"sha256:{'a' * 64}", "size_bytes": 1}],
}
# verb: method, path, body; then the status for: owner (of the dataset; a member of the image's
# project), member, stranger, administrator.
VERBS: dict[str, tuple[str, str, Body, tuple[int, int, int, int]]] = {
    "get image": ("GET", IMAGE, None, (200, 200, 404, 200)),
    "register image": ("POST", "/images", NEW_IMAGE, (403, 403, 403, 201)),
    "retire image": ("PATCH", IMAGE, {"state": "retired"}, (403, 403, 403, 200)),
    "show image": ("PATCH", IMAGE, {"projects": ["eve"]}, (403, 403, 403, 200)),
    "damage image": ("POST", f"{IMAGE}/verification", {"damage": "gone"}, (403, 403, 403, 200)),
    "remove image": ("DELETE", "/images/old/1.0", None, (403, 403, 403, 200)),
    "get dataset": ("GET", DATASET, None, (200, 200, 404, 200)),
    "versions": ("GET", "/datasets/photos", None, (200, 200, 404, 200)),
    "manifest": ("GET", f"{DATASET}/manifest", None, (200, 200, 404, 200)),
    "retire dataset": ("PATCH", DATASET, {"retired": True}, (200, 403, 404, 200)),
    "grant own project": ("PUT", f"{DATASET}/projects/vision", None, (200, 403, 404, 200)),
    "grant another's project": ("PUT", f"{DATASET}/projects/eve", None, (404, 403, 404, 200)),
    "revoke": ("DELETE", f"{DATASET}/projects/vision", None, (200, 403, 404, 200)),
    "verify dataset": (
        "POST",
        f"{DATASET}/verification",
        {"manifest": MANIFEST, "damaged_files": 3},
        (200, 200, 404, 200),
    ),
}
CHANGES = {verb: each for verb, each in VERBS.items() if each[0] != "GET"}
ALLOWED = [
    (verb, who, status)
    for verb, (*_, statuses) in CHANGES.items()
    for who, status in zip(ROLES, statuses, strict=True)
    if status < 400
]


async def stocked(catalogue: Catalogue) -> None:
    await catalogue.put_image("open")
    await catalogue.put_image("closed", projects=("vision",))
    await catalogue.put_image("old", projects=("vision",), state="retired")
    await catalogue.add_dataset("photos")


async def everything(catalogue: Catalogue) -> list[object]:
    store = catalogue.stage.store
    return [await store.list_images(), await store.list_datasets(visible_to=None)]


@pytest.mark.parametrize("who", ROLES)
async def test_forbidden_catalogue_request_changes_nothing(catalogue: Catalogue, who: str) -> None:
    await stocked(catalogue)
    before = await everything(catalogue)
    async with catalogue.client(who) as client:
        for verb, (method, path, body, statuses) in VERBS.items():
            expected = statuses[ROLES.index(who)]
            if method == "GET" or expected >= 400:
                answer = await client.request(method, f"/api/v1{path}", json=body)
                assert answer.status_code == expected, (verb, answer.text)
    assert await everything(catalogue) == before


@pytest.mark.parametrize(("verb", "who", "expected"), ALLOWED)
async def test_permitted_catalogue_request_takes_effect(
    catalogue: Catalogue, verb: str, who: str, expected: int
) -> None:
    method, path, body, _ = VERBS[verb]
    await stocked(catalogue)
    before = await everything(catalogue)
    async with catalogue.client(who) as client:
        answer = await client.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == expected, answer.text
    assert (await everything(catalogue) == before) is (verb == "grant own project")


async def test_no_verb_works_without_a_login(catalogue: Catalogue) -> None:
    async with catalogue.stage.client() as client:
        for method, path, body, _ in VERBS.values():
            answer = await client.request(method, f"/api/v1{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
        answer = await client.put(f"/api/v1/manifests/{MANIFEST}", content=PACKED)
        assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")


async def test_a_token_that_may_only_read_changes_nothing(catalogue: Catalogue) -> None:
    await stocked(catalogue)
    before = await everything(catalogue)
    for name in ("ada", "root"):
        user = await catalogue.stage.store.get_user(name)
        actor = catalogue.stage.actor(name).model_copy(update={"user": user})
        async with catalogue.stage.client(await catalogue.stage.token(actor, Scope.READ)) as client:
            for method, path, body, _ in CHANGES.values():
                answer = await client.request(method, f"/api/v1{path}", json=body)
                assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert await everything(catalogue) == before


async def test_a_token_that_may_only_read_uploads_nothing(catalogue: Catalogue) -> None:
    ada = catalogue.stage.actor("ada")
    async with catalogue.stage.client(await catalogue.stage.token(ada, Scope.READ)) as client:
        answer = await client.put(f"/api/v1/manifests/{MANIFEST}", content=PACKED)
    assert answer.status_code == 403
    assert not catalogue.stage.settings.manifests_dir.exists()


async def test_an_administrators_ordinary_token_sees_what_a_user_sees(
    catalogue: Catalogue,
) -> None:
    await stocked(catalogue)
    user = await catalogue.stage.store.get_user("root")
    root = catalogue.stage.actor("root").model_copy(update={"user": user})
    token = await catalogue.stage.token(root, Scope.READ, Scope.WRITE)
    async with catalogue.stage.client(token) as client:
        for path in (IMAGE, DATASET):
            assert (await client.get(f"/api/v1{path}")).status_code == 404
        images = (await client.get("/api/v1/images")).json()["items"]
        assert [each["name"] for each in images] == ["open"]
        assert (await client.get("/api/v1/datasets")).json()["items"] == []


@pytest.mark.parametrize(
    ("who", "images", "datasets"),
    [
        ("owner", ["closed", "open"], ["photos"]),
        ("member", ["closed", "open"], ["photos"]),
        ("stranger", ["open"], []),
        ("administrator", ["closed", "old", "open"], ["photos"]),
    ],
)
async def test_lists_show_what_one_may_see(
    catalogue: Catalogue, who: str, images: list[str], datasets: list[str]
) -> None:
    await stocked(catalogue)
    async with catalogue.client(who) as client:
        for kind, expected in (("images", images), ("datasets", datasets)):
            found = (await client.get(f"/api/v1/{kind}")).json()["items"]
            assert [each["name"] for each in found] == expected


async def test_hidden_image_or_dataset_looks_like_missing_one(catalogue: Catalogue) -> None:
    await stocked(catalogue)
    async with catalogue.client("stranger") as client:
        for there, missing in ((IMAGE, "/images/nothing/1.0"), (DATASET, "/datasets/nothing/1.0")):
            answers = [await client.get(f"/api/v1{path}") for path in (there, missing)]
            names = [path.split("/")[2] for path in (there, missing)]
            texts = [
                answer.text.replace(name, "X") for answer, name in zip(answers, names, strict=True)
            ]
            assert texts[0] == texts[1]


async def test_members_do_not_learn_which_other_projects_see_it(catalogue: Catalogue) -> None:
    await catalogue.put_image("shared", projects=("eve", "vision"))
    await catalogue.put_dataset("shared", projects=("eve", "vision"))
    seen = {"member": ["vision"], "stranger": ["eve"], "administrator": ["eve", "vision"]}
    for who, projects in seen.items():
        async with catalogue.client(who) as client:
            for kind in ("images", "datasets"):
                one = (await client.get(f"/api/v1/{kind}/shared/1.0")).json()
                (listed,) = (await client.get(f"/api/v1/{kind}")).json()["items"]
                assert one["projects"] == listed["projects"] == projects
    async with catalogue.client("owner") as client:
        mine = (await client.get("/api/v1/datasets/shared/1.0")).json()
    assert mine["projects"] == ["eve", "vision"]


async def test_dataset_cannot_use_project_or_name_of_other_user(catalogue: Catalogue) -> None:
    await stocked(catalogue)
    digest = await catalogue.upload("stranger")
    body = {"version": "2.0", "path": str(catalogue.home / "photos"), "manifest": digest}
    async with catalogue.client("stranger") as client:
        closed = {**body, "name": "mine", "project": "vision"}
        assert (await client.post("/api/v1/datasets", json=closed)).status_code == 404
        taken = await client.post("/api/v1/datasets", json={**body, "name": "photos"})
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
        assert "ada" not in taken.text
    assert [each.name for each in await catalogue.stage.store.list_datasets(visible_to=None)] == [
        "photos"
    ]


async def test_an_upload_is_only_for_whoever_made_it(catalogue: Catalogue) -> None:
    """The digest of another user's manifest gives no access to the manifest."""
    digest = await catalogue.upload("owner")
    body = {"name": "x", "version": "1", "path": str(catalogue.photos()), "manifest": digest}
    async with catalogue.client("stranger") as client:
        answer = await client.post("/api/v1/datasets", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "manifest_missing")


async def test_the_manifest_of_a_closed_dataset_is_not_had_by_its_digest(
    catalogue: Catalogue,
) -> None:
    """The digest stands in the records of jobs, which others may see than those who may read it."""
    await catalogue.add_dataset("photos")
    digest = (await catalogue.stage.store.get_dataset("photos", None)).manifest
    body = {"name": "x", "version": "1", "path": str(catalogue.photos("x")), "manifest": digest}
    async with catalogue.client("stranger") as client:
        answer = await client.post("/api/v1/datasets", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "manifest_missing")
        assert (await client.get("/api/v1/datasets/x/1/manifest")).status_code == 404
    async with catalogue.client("owner") as client:
        assert (await client.post("/api/v1/datasets", json=body)).status_code == 201


HOSTILE = [
    *("..", ".", "a/b", "A", "a;rm", "a b", "$(x)", "a\n", "a\0", "-x", "ä", "a:b", "x" * 65),
    *("a,b", "a'b", 'a"b', "{home}"),
]


@pytest.mark.parametrize("field", ["name", "version"])
async def test_names_that_are_none(catalogue: Catalogue, field: str) -> None:
    new = {"name": "x", "version": "1", "path": "/x", "manifest": MANIFEST}
    async with catalogue.client("administrator") as client:
        for name in HOSTILE:
            if field == "version" and name == "A":
                continue
            for path, given in (("datasets", new), ("images", NEW_IMAGE)):
                answer = await client.post(f"/api/v1/{path}", json=given | {field: name})
                assert answer.status_code == 422, (name, answer.text)
                assert answer.json()["problems"][0]["field"] == field
    assert await everything(catalogue) == [[], []]


async def test_digests_that_are_none(catalogue: Catalogue) -> None:
    async with catalogue.client("owner") as client:
        for digest in ("../../etc/passwd", "..%2f..%2fx", "A" * 64, "a" * 63, "%00"):
            answer = await client.put(f"/api/v1/manifests/{digest}", content=PACKED)
            assert answer.status_code in (404, 405, 422), digest
    assert not catalogue.stage.settings.manifests_dir.exists()


def packed(text: bytes) -> bytes:
    return b"".join(compress_manifest([text]))


def line(path: bytes) -> bytes:
    return b"0" * 64 + b"\t1\t" + path + b"\n"


BOMB = packed(HEADER + b"0" * 100_000_000)
BAD = {
    "not packed": HEADER + line(b"a"),
    "nothing": b"",
    "cut off": PACKED[:-9],
    "more behind it": PACKED + b"x",
    "two streams": PACKED + PACKED,
    "no header": packed(line(b"a")),
    "empty text": packed(b""),
    "climbs": packed(HEADER + line(b"../a")),
    "climbs later": packed(HEADER + line(b"a/../../b")),
    "absolute": packed(HEADER + line(b"/etc/passwd")),
    "nul": packed(HEADER + line(b"a\\x00b")),
    "raw nul": packed(HEADER + line(b"a\0b")),
    "link out": packed(HEADER + b"link\t../../etc\ta\n"),
    "link absolute": packed(HEADER + b"link\t/etc\ta\n"),
    "twice": packed(HEADER + line(b"a") + line(b"a")),
    "no end": packed(HEADER + line(b"a")[:-1]),
    "negative": packed(HEADER + b"0" * 64 + b"\t-1\ta\n"),
    "huge": packed(HEADER + b"0" * 64 + b"\t99999999999999999999\ta\n"),
    "a line without end": BOMB,
    "another": manifest_of(other=b"")[1],
}


async def test_manifests_that_are_none_are_not_kept(catalogue: Catalogue) -> None:
    new = {"name": "x", "version": "1", "path": str(catalogue.photos())}
    async with catalogue.client("owner") as client:
        for case, body in BAD.items():
            # The digest is right wherever there is a text: it must not be what saves us.
            text = zlib.decompressobj(31).decompress(body) if body[:2] == b"\x1f\x8b" else b""
            digest = MANIFEST if case == "another" else hashlib.sha256(text).hexdigest()
            answer = await client.put(f"/api/v1/manifests/{digest}", content=body)
            assert answer.status_code == 422, (case, answer.text)
            missing = await client.post("/api/v1/datasets", json=new | {"manifest": digest})
            assert missing.json()["code"] == "manifest_missing", case
    assert kept_files(catalogue) == []


def kept_files(catalogue: Catalogue) -> list[Path]:
    return [path for path in catalogue.stage.settings.manifests_dir.rglob("*") if path.is_file()]


async def test_a_packet_that_unpacks_to_more_than_is_read(catalogue: Catalogue) -> None:
    lines = b"".join(line(b"%08d" % number) for number in range(200_000))
    body = packed(HEADER + lines)
    catalogue.stage.platform.datasets._manifests = ManifestFolder(
        catalogue.stage.settings.manifests_dir, most_bytes=len(lines) // 2
    )
    async with catalogue.client("owner") as client:
        digest = hashlib.sha256(HEADER + lines).hexdigest()
        answer = await client.put(f"/api/v1/manifests/{digest}", content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_manifest")
    assert "larger" in answer.json()["detail"]
    assert kept_files(catalogue) == []


async def test_a_body_that_never_ends_is_cut_off(catalogue: Catalogue) -> None:
    manifests = ManifestFolder(catalogue.stage.settings.manifests_dir, most_bytes=1 << 20)
    catalogue.stage.platform.datasets._manifests = manifests
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield os.urandom(1 << 16)

    async with catalogue.client("owner") as client:
        answer = await client.put(f"/api/v1/manifests/{MANIFEST}", content=endless())
    assert answer.status_code == 422
    assert sent < 64
    assert kept_files(catalogue) == []


async def test_ordinary_bodies_are_as_small_as_ever(catalogue: Catalogue) -> None:
    async with catalogue.client("owner") as client:
        for path in ("/api/v1/datasets", "/api/v1/manifests", f"/api/v1/manifests/{MANIFEST}/x"):
            answer = await client.post(path, content=b"x" * (2 << 20))
            assert answer.status_code in (404, 405, 413), path


async def test_a_full_disk_is_said_and_leaves_nothing(catalogue: Catalogue) -> None:
    catalogue.stage.platform.datasets._manifests = ManifestFolder(
        catalogue.stage.settings.manifests_dir, spare_bytes=1 << 60
    )
    async with catalogue.client("owner") as client:
        answer = await client.put(f"/api/v1/manifests/{MANIFEST}", content=PACKED)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "is full" in answer.json()["detail"]
    assert kept_files(catalogue) == []


async def test_waiting_uploads_of_one_user_are_limited(catalogue: Catalogue) -> None:
    for number in range(MOST_WAITING + 3):
        await catalogue.upload("owner", **{f"{number}.jpg": PHOTO})
    await catalogue.upload("stranger")
    folders = {path.parent.parent.name for path in kept_files(catalogue)}
    assert folders == {"ada", "eve"}
    assert len(kept_files(catalogue)) == 2 * (MOST_WAITING + 1)


OUTSIDE = ["/", "/etc", "/home", "{home}", "{home}/", "{home}/../other", "{home}/x/../..", "//etc"]


async def test_folders_that_are_none_to_share(catalogue: Catalogue) -> None:
    (catalogue.home / "link").symlink_to("/etc")
    (catalogue.home / "file").write_text("x")
    new = {"name": "x", "version": "1", "manifest": await catalogue.upload()}
    async with catalogue.client("owner") as client:
        for path in (*OUTSIDE, "{home}/link", "{home}/missing", "{home}/file"):
            body = new | {"path": path.replace("{home}", str(catalogue.home))}
            answer = await client.post("/api/v1/datasets", json=body)
            assert answer.status_code == 422, (path, answer.text)
            assert [each["field"] for each in answer.json()["problems"]] == ["path"]
    assert await everything(catalogue) == [[], []]


async def test_a_link_inside_ones_home_is_followed_once(catalogue: Catalogue) -> None:
    """The path is resolved when it is checked; jobs mount the result even if the link changes."""
    real = catalogue.photos("real")
    (catalogue.home / "link").symlink_to(real)
    body = {"name": "x", "version": "1", "path": str(catalogue.home / "link")}
    async with catalogue.client("owner") as client:
        answer = await client.post(
            "/api/v1/datasets", json=body | {"manifest": await catalogue.upload()}
        )
    assert answer.json()["path"] == str(real)


def claim(catalogue: Catalogue, **changes: Any) -> dict[str, Any]:
    artifact = catalogue.sif().model_dump(include={"runtime", "digest", "path"}) | changes
    return {"name": "base", "version": "1.0", "artifacts": [artifact]}


async def test_an_image_outside_the_images_folder(catalogue: Catalogue) -> None:
    folder = catalogue.stage.settings.images_dir
    for path in ("/etc/passwd", f"{folder}", f"{folder}/../x", f"{folder}/sub/../x"):
        body = claim(catalogue, path=path)
        await refused(catalogue, body, "is not in the images' folder")


async def refused(catalogue: Catalogue, body: dict[str, Any], why: str) -> None:
    async with catalogue.client("administrator") as client:
        answer = await client.post("/api/v1/images", json=body)
    assert answer.status_code == 422, answer.text
    assert why in answer.json()["detail"]
    assert answer.json()["problems"][0]["field"].startswith("artifacts")
    assert await everything(catalogue) == [[], []]


async def test_an_image_that_others_could_change(catalogue: Catalogue) -> None:
    body = claim(catalogue)
    path = Path(body["artifacts"][0]["path"])
    for loose, tight in ((path, 0o644), (path.parent, 0o755)):
        for mode in (0o666, 0o777):
            loose.chmod(mode)
            await refused(catalogue, body, "other users can write")
        loose.chmod(tight)
    if os.geteuid() == 0:
        os.chown(path, 12_345, -1)
        await refused(catalogue, body, "belongs to uid 12345")


async def test_an_image_that_is_no_file(catalogue: Catalogue) -> None:
    body = claim(catalogue)
    path = Path(body["artifacts"][0]["path"])
    elsewhere = path.rename(path.with_name("elsewhere.sif"))
    await refused(catalogue, body, "cannot read it")
    path.symlink_to(elsewhere)
    await refused(catalogue, body, "cannot read it")
    path.unlink()
    os.mkfifo(path, 0o644)
    await refused(catalogue, body, "not a regular file")
    path.unlink()
    path.mkdir(mode=0o755)
    await refused(catalogue, body, "not a regular file")
    path.rmdir()
    elsewhere.rename(path)
    folder = path.parent.rename(path.parent.with_name("real"))
    path.parent.mkdir(mode=0o755)
    (path.parent / "sub").symlink_to(folder)
    body["artifacts"][0]["path"] = str(path.parent / "sub" / path.name)
    await refused(catalogue, body, "is not a folder")


async def test_an_image_with_another_digest(catalogue: Catalogue) -> None:
    await refused(
        catalogue, claim(catalogue, digest=f"sha256:{'0' * 64}"), "not the registered one"
    )


async def test_two_images_for_one_runtime(catalogue: Catalogue) -> None:
    body = claim(catalogue)
    body["artifacts"] *= 2
    await refused(catalogue, body, "twice")


async def test_fields_set_by_platform_are_refused_in_requests(catalogue: Catalogue) -> None:
    image = {**NEW_IMAGE, "created_by": "eve"}
    dataset = {"name": "x", "version": "1", "path": "/x", "manifest": MANIFEST}
    async with catalogue.client("administrator") as client:
        assert (await client.post("/api/v1/images", json=image)).status_code == 422
        for extra in ({"owner": "ada"}, {"files": 3}, {"size_bytes": 5}, {"projects": ["eve"]}):
            answer = await client.post("/api/v1/datasets", json=dataset | extra)
            assert answer.status_code == 422
