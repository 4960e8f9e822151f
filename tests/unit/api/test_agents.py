from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_array, make_job, make_session, store_job_token
from tests.support.monitoring import known_metrics
from tests.support.stage import SECRETS, Stage, open_stage

TOKEN = "the-jobs-own-token"
STARTING = (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING)
HUB = {"Authorization": f"Bearer {SECRETS['hub_service_secret']}"}


async def stored(stage: Stage, job: Job, *states: JobState) -> Job:
    epoch = await stage.add_node()
    await stage.store.create_job(job)
    for state in states:
        job = await stage.store.transition_job(job.id, state)
    await store_job_token(stage.store, job.id, hash_secret(TOKEN), epoch=epoch)
    return job


def report(phase: str = "started", **fields: object) -> dict[str, object]:
    return {"protocol": 1, "attempt": 1, "phase": phase, "node": "node01", **fields}


async def send(
    stage: Stage, job: Job, body: dict[str, object], token: str = TOKEN
) -> httpx.Response:
    async with stage.client(token) as agent:
        return await agent.post(f"/agent/v1/jobs/{job.id}/report", json=body)


async def becomes(stage: Stage, job: Job, state: JobState) -> Job:
    """Wait until what is kept for the job has been applied."""
    async with asyncio.timeout(60):
        while (now := await stage.store.get_job(job.id)).state is not state:
            await stage.store.wait_for_change(1)
    return now


async def test_started_makes_a_starting_job_run(stage: Stage) -> None:
    job = await stored(stage, make_session(), *STARTING)
    stage.clock.move(3)
    answer = await send(stage, job, report(address="node01:40123"))
    assert answer.json() == {"protocol": 1, "topology_wanted": False}
    job = await stage.store.get_job(job.id)
    assert job.state is JobState.RUNNING
    assert job.address == "node01:40123"
    assert job.nodes == ("node01",)
    assert job.started_at == stage.clock.now
    assert (job.allocated_at, job.expires_at) == (None, None), "for the scheduler to say"


@pytest.mark.parametrize("state", [JobState.SUBMITTING, JobState.QUEUED])
async def test_a_report_ahead_of_the_poll_counts_once_the_poll_agrees(
    stage: Stage, state: JobState
) -> None:
    job = await stored(stage, make_session(), *STARTING[: STARTING.index(state) + 1])
    before = await stage.store.get_job(job.id)
    await send(stage, job, report(address="node01:40123"))
    await send(stage, job, report("running", address="node01:40123"))
    assert await stage.store.get_job(job.id) == before
    stage.clock.move(100)
    start = JobChanges(allocated_at=stage.clock.now)
    await stage.store.transition_job(job.id, JobState.STARTING, start)
    now = await becomes(stage, job, JobState.RUNNING)
    assert now.address == "node01:40123"
    assert now.started_at == now.allocated_at == stage.clock.now


async def test_a_heartbeat_stores_samples_and_makes_good_a_lost_start(stage: Stage) -> None:
    job = await stored(stage, make_job(), *STARTING)
    sample = {"time": "2026-03-01T12:00:00Z", "node": "node01", "cpu": 1.5, "memory_bytes": 1000}
    await send(stage, job, report("running", samples=[sample]))
    assert (await stage.store.get_job(job.id)).state is JobState.RUNNING
    assert [each.cpu for each in await stage.store.list_samples(job.id)] == [1.5]
    version = (await stage.store.get_job(job.id)).version
    await send(stage, job, report("running", samples=[sample]))
    assert (await stage.store.get_job(job.id)).version == version


PROFILE = {
    "schema": 1,
    "written_at": "2026-03-01T12:00:00Z",
    "size": 4,
    "steps": 12,
    "communicating": 0.25,
    "straggler": {"rank": 3, "node": 1, "behind_s": 0.01, "share": 0.1},
    "table": [
        {"op": "allreduce", "from_bytes": 4097, "to_bytes": 65536, "count": 5, "bytes": 10_000,
         "time_s": 0.5, "bus_bytes_per_s": 1e6},
    ],
    "of_a_newer_runtime": True,
}  # fmt: skip


async def test_a_nodes_agent_tells_of_its_samples_and_moves_nothing(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED)
    sample = {"time": "2026-03-01T12:00:00Z", "node": "node02", "cpu": 1.5, "memory_bytes": 1000}
    for phase in ("running", "finished"):
        body = report(phase, node="node02", node_rank=1, samples=[sample])
        assert (await send(stage, job, body)).status_code == 200
    assert (await stage.store.get_job(job.id)).state is JobState.QUEUED
    assert [each.node for each in await stage.store.list_samples(job.id)] == ["node02"]


async def test_end_of_ranks_is_shown_and_ends_no_session(stage: Stage) -> None:
    with_ranks = {"distributed": {"ranks_per_node": 2}}
    job = await stored(stage, make_session(spec=with_ranks), *STARTING)
    await send(stage, job, report(address="node01:40123"))
    ended = "Rank 3 on node node02 was ended by signal 9 (SIGKILL).\n The session continues"
    await send(stage, job, report("running", ranks_ended=ended))
    now = await stage.store.get_job(job.id)
    assert now.state is JobState.RUNNING
    assert now.message == (
        "Rank 3 on node node02 was ended by signal 9 (SIGKILL). The session continues."
    )
    await send(stage, job, report("running", ranks_ended=ended))
    assert (await stage.store.get_job(job.id)).version == now.version
    # Who ends the session is said rather than how its ranks have ended.
    await stage.store.request_cancel(job.id, stage.clock.now, "Stopped by ada.")
    await send(stage, job, report("running", ranks_ended=ended))
    assert (await stage.store.get_job(job.id)).message == "Stopped by ada."


async def test_end_of_ranks_is_ignored_from_a_job_without_ranks(stage: Stage) -> None:
    job = await stored(stage, make_session(), *STARTING)
    await send(stage, job, report(address="node01:40123"))
    await send(stage, job, report("running", ranks_ended="Pay here"))
    assert (await stage.store.get_job(job.id)).message is None


async def test_metrics_are_shown_by_node_and_rank(stage: Stage) -> None:
    ada, eve = await stage.add_user("ada"), await stage.add_user("eve")
    spec = {
        "resources": {"nodes": 2, "cpu": 4, "gpu": {"count": 2}},
        "distributed": {"ranks_per_node": 2},
    }
    job = make_session(owner="ada", project="ada", spec=spec)
    job = await stored(stage, job, *STARTING)
    await stage.store.transition_job(
        job.id, JobState.RUNNING, JobChanges(nodes=("node01", "node02"))
    )
    for number, node in enumerate(("node01", "node02")):
        gpus = [
            {"index": 2 * number + local, "utilization": share, "memory_bytes": 10 + local}
            for local, share in enumerate((0.5, 1.0))
        ]
        samples = [
            {
                "time": f"2026-03-01T12:{minute // 60:02}:{minute % 60:02}Z",
                "node": node,
                "cpu": 1.5 + number,
                "memory_bytes": 1000,
                "gpu": gpus,
            }
            for minute in range(200)
        ]
        place = {"node_rank": number} if number else {}
        await send(stage, job, report("running", node=node, samples=samples, **place))
    rows = [
        {"rank": rank, "node": rank // 2, "steps": 10, "step_s": 1.0, "own_s": own_s}
        for rank, own_s in enumerate((0.5, 0.5, 0.5, 0.9))
    ]
    await send(stage, job, report("running", profile={**PROFILE, "ranks": rows}))
    url = f"/api/v1/jobs/{job.id}/metrics/ranks"
    async with stage.client(await stage.token(ada)) as client:
        found = (await client.get(url)).json()
    async with stage.client(await stage.token(eve)) as client:
        assert (await client.get(url)).status_code == 404
    assert [(node["node"], node["ranks"], node["straggler"]) for node in found["nodes"]] == [
        ("node01", [0, 1], False),
        ("node02", [2, 3], True),
    ]
    assert {len(node["points"]) for node in found["nodes"]} == {120}
    assert found["nodes"][1]["points"][-1] == {
        "time": "2026-03-01T12:03:19Z",
        "cpu": 2.5,
        "memory_bytes": 1000,
        "gpu_utilization": 0.75,
        "gpu_memory_bytes": 21,
    }
    ranks = found["ranks"]
    assert [(rank["node"], rank["gpu"]) for rank in ranks] == [
        ("node01", 0),
        ("node01", 1),
        ("node02", 2),
        ("node02", 3),
    ]
    # Another order of the nodes, and of the GPUs of one.
    bindings = [{"rank": 0, "node": "node02", "gpu": 7}, {"rank": 1, "node": "node02", "gpu": 5}]
    placement = {"given": ["node01", "node02"], "order": ["node02", "node01"], "reason": "x"}
    placement |= {"bindings": bindings}
    await send(stage, job, report("running", placement=placement))
    async with stage.client(await stage.token(ada)) as client:
        reordered = (await client.get(url)).json()
    assert [(rank["node"], rank["gpu"]) for rank in reordered["ranks"]] == [
        ("node02", 3),
        ("node02", 2),
        ("node01", 0),
        ("node01", 1),
    ]
    assert [rank["straggler"] for rank in ranks] == [False, False, False, True]
    assert [rank["behind_s"] for rank in ranks[2:]] == [0.0, pytest.approx(0.4)]
    assert ranks[3]["points"][-1]["utilization"] == 1.0


async def test_the_last_profile_is_shown_to_who_may_see_the_job(stage: Stage) -> None:
    ada, eve = await stage.add_user("ada"), await stage.add_user("eve")
    job = make_job(owner="ada", project="ada")
    job = await stored(stage, job, JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING)
    url = f"/api/v1/jobs/{job.id}/profile"
    async with stage.client(await stage.token(ada)) as client:
        missing = await client.get(url)
        assert (missing.status_code, missing.json()["title"]) == (404, "Not Found")
        before = await stage.store.get_last_event_id()
        for steps in (12, 20):
            await send(
                stage, job, report("running", node_rank=0, profile={**PROFILE, "steps": steps})
            )
        assert [event.kind for event in await stage.store.list_events_after(before)] == [
            "job.profile"
        ]
        shown = (await client.get(url)).json()
        assert (shown["schema"], shown["steps"], shown["straggler"]["rank"]) == (1, 20, 3)
        assert "of_a_newer_runtime" not in shown
        history = (await client.get(f"/api/v1/jobs/{job.id}/events")).json()["items"]
        assert "job.profile" not in {event["kind"] for event in history}
        text = await client.get(url, headers={"Accept": "text/plain"})
        assert text.headers["content-type"].startswith("text/plain")
        assert "aitne_distrib_steps_total 20.0" in text.text
        assert 'aitne_distrib_bytes_total{op="allreduce",size="4097-65536"} 10000.0' in text.text
        assert "aitne_distrib_overlap_ratio" not in text.text, "nothing is known of it"
        known = set(known_metrics())
        assert {line.split()[2] for line in text.text.splitlines() if "TYPE" in line} <= known
    async with stage.client(await stage.token(eve)) as client:
        assert (await client.get(url)).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": 2},
        {"size": 0},
        {"size": "four"},
        {"communicating": 7},
        {"written_at": "yesterday"},
        {"table": [{"op": "<script>", "from_bytes": 0, "count": 1, "bytes": 1, "time_s": 1}]},
        {"ranks": [{"rank": 0, "node": 0, "steps": 0}] * 2_000},
        {"elapsed_s": 1e300},
    ],
)
async def test_invalid_profile_is_ignored_and_samples_are_stored(
    stage: Stage, wrong: dict[str, object]
) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING)
    sample = {"time": "2026-03-01T12:00:00Z", "node": "node01", "cpu": 1.5, "memory_bytes": 1000}
    body = report("running", samples=[sample], profile={**PROFILE, **wrong})
    assert (await send(stage, job, body)).status_code == 200
    assert await stage.store.find_profile(job.id) is None
    assert len(await stage.store.list_samples(job.id)) == 1


@pytest.mark.parametrize(
    "address", ["node01", "node01:x", "u:p@node01:80", "node01:80/x", "a" * 999]
)
async def test_an_address_is_a_node_and_a_port(stage: Stage, address: str) -> None:
    job = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    answer = await send(stage, job, report(address=address))
    assert 400 <= answer.status_code < 500
    assert (await stage.store.get_job(job.id)).state is JobState.QUEUED


async def test_finished_is_a_hint_and_never_an_outcome(stage: Stage) -> None:
    job = await stored(
        stage, make_job(), JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING
    )
    await send(stage, job, report("finished", exit_code=3))
    job = await stage.store.get_job(job.id)
    assert (job.state, job.exit_code, job.reason) == (JobState.COMPLETING, None, None)


async def test_an_earlier_attempt_is_answered_politely_and_ignored(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED)
    assert (await send(stage, job, report(attempt=7))).status_code == 200
    assert (await stage.store.get_job(job.id)).state is JobState.QUEUED


async def test_a_restart_is_believed_of_the_scheduler_alone(stage: Stage) -> None:
    job = await stored(stage, make_session(), *STARTING)
    await send(stage, job, report(address="node01:1"))
    ready = JobChanges(url="http://x/lab", allocated_at=stage.clock.now)
    before = await stage.store.transition_job(job.id, JobState.READY, ready)
    stage.clock.move(100)
    again = report(address="node02:2", node="node02", restart_count=1)
    await send(stage, job, again)
    assert await stage.store.get_job(job.id) == before

    over = dict.fromkeys(("allocated_at", "started_at", "address", "url"))
    requeued = JobChanges(restart_count=1, **over)
    await stage.store.transition_job(job.id, JobState.QUEUED, requeued)
    start = JobChanges(allocated_at=stage.clock.now)
    await stage.store.transition_job(job.id, JobState.STARTING, start)
    now = await becomes(stage, job, JobState.RUNNING)
    assert (now.restart_count, now.address, now.url) == (1, "node02:2", None)
    assert now.started_at == stage.clock.now
    await send(stage, job, report(address="node01:1", restart_count=0))
    assert (await stage.store.get_job(job.id)).address == "node02:2"


@pytest.mark.parametrize("count", [-1, 1_000_001, 2**40])
async def test_a_restart_count_is_bounded(stage: Stage, count: int) -> None:
    job = await stored(stage, make_job(), *STARTING)
    assert (await send(stage, job, report(restart_count=count))).status_code == 422
    assert (await stage.store.get_job(job.id)).state is JobState.STARTING


async def test_tasks_of_an_array_report_with_its_token(stage: Stage) -> None:
    parent, tasks = make_array("0-1")
    epoch = await stage.add_node()
    await stage.store.create_job(parent, tasks)
    for job in tasks:
        for state in STARTING:
            await stage.store.transition_job(job.id, state)
    await store_job_token(stage.store, parent.id, hash_secret(TOKEN), epoch=epoch)
    await send(stage, parent, report(task=1))
    await send(stage, parent, report(task=9))
    states = [task.state for task in await stage.store.list_array_tasks(parent.id)]
    assert states == [JobState.STARTING, JobState.RUNNING]


async def test_only_the_jobs_own_token_opens_it(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED)
    other = make_job(id=uuid4())
    assert (await send(stage, job, report(), token="wrong")).status_code == 401
    assert (await send(stage, other, report())).status_code == 401
    async with stage.client() as nobody:
        answer = await nobody.post(f"/agent/v1/jobs/{job.id}/report", json=report())
        assert answer.status_code == 401
    await stage.store.transition_job(job.id, JobState.CANCELLED)
    assert (await send(stage, job, report())).status_code == 401


async def test_the_hand_over_reaches_the_agent_that_waits(stage: Stage) -> None:
    job = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    url = f"/agent/v1/jobs/{job.id}/handover"
    async with stage.client(TOKEN) as agent, stage.client() as hub:
        assert (await agent.get(url)).status_code == 204
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(agent.get(url, params={"wait_s": 25}))
            payload = {"env": {"JUPYTERHUB_API_TOKEN": "x"}, "args": ["--port=1"]}
            put = await hub.put(
                f"/internal/hub/v1/jobs/{job.id}/handover", json=payload, headers=HUB
            )
            assert put.status_code == 204
        received = waiting.result().json()
        assert received["args"] == payload["args"]
        assert received["env"]["JUPYTERHUB_API_TOKEN"] == "x"


async def test_the_hub_learns_what_it_may_know(stage: Stage) -> None:
    session = await stored(stage, make_session(), *STARTING)
    batch = make_job()
    await stage.store.create_job(batch)
    await send(stage, session, report(address="node01:40123"))
    async with stage.client() as hub:
        hub.headers.update(HUB)
        known = (await hub.get(f"/internal/hub/v1/jobs/{session.id}")).json()
        assert known == {
            "job_id": str(session.id),
            "owner": "ada",
            "address": "node01:40123",
            "live": True,
            "confirmed": True,
            "refused": None,
        }
        live = (await hub.get("/internal/hub/v1/live")).json()
        assert live == {"job_ids": [str(session.id)]}
        assert (await hub.get(f"/internal/hub/v1/jobs/{batch.id}")).status_code == 404
        assert (await hub.get(f"/internal/hub/v1/jobs/{uuid4()}")).status_code == 404
        await stage.store.transition_job(session.id, JobState.CANCELLED)
        assert not (await hub.get(f"/internal/hub/v1/jobs/{session.id}")).json()["live"]
        late = await hub.put(f"/internal/hub/v1/jobs/{session.id}/handover", json={"env": {}})
        assert late.status_code == 409


@pytest.mark.parametrize("secret", ["", "wrong", "hub-secre", "hub-secret2"])
async def test_hub_requests_with_wrong_secret_are_refused(stage: Stage, secret: str) -> None:
    root = {"Authorization": f"Bearer {secret}"}
    async with stage.client() as client:
        for method, path in (
            ("GET", f"/internal/hub/v1/jobs/{uuid4()}"),
            ("PUT", f"/internal/hub/v1/jobs/{uuid4()}/handover"),
            ("GET", "/internal/hub/v1/live"),
        ):
            answer = await client.request(method, path, json={"env": {}}, headers=root)
            assert answer.status_code == 401


async def test_session_gets_a_certificate_for_the_address_that_it_has_reported(
    tmp_path: Path, blank: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    pem = csr.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    body = {"request": pem, "address": "node01:40123"}
    async with open_stage(tmp_path, blank, tls={"enabled": True}) as stage:
        job = await stored(stage, make_session(), *STARTING)
        path = f"/agent/v1/jobs/{job.id}/certificate"
        async with stage.client(TOKEN) as agent:
            assert (await agent.post(path, json=body)).status_code == 409
            await send(stage, job, report(address="node01:40123"))
            for wrong, status in (({"request": "none"}, 422), ({"address": "node02:40123"}, 409)):
                assert (await agent.post(path, json=body | wrong)).status_code == status
            answer = await agent.post(path, json=body)
        issued = x509.load_pem_x509_certificate(answer.json()["certificate"].encode())
        found = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "node01" in found.get_values_for_type(x509.DNSName)
        async with stage.client("another-jobs-token") as other:
            assert (await other.post(path, json=body)).status_code == 401


async def test_there_are_no_certificates_without_tls(stage: Stage) -> None:
    job = await stored(stage, make_session(), *STARTING)
    async with stage.client(TOKEN) as agent:
        body = {"request": "none", "address": "node01:40123"}
        answer = await agent.post(f"/agent/v1/jobs/{job.id}/certificate", json=body)
    assert answer.status_code == 404
