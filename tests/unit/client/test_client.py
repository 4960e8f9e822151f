from __future__ import annotations

import pytest

from aitne.client import Client, Job
from aitne.client.errors import JobEnded, Unreachable, WaitTimeout
from aitne.client.record_base import LIVE
from aitne.core import errors
from tests.support.fake_api import (
    JOB_ID,
    TOO_MANY_CPUS,
    Answer,
    CannedAnswer,
    ConnectionLost,
    FakeApi,
    Refused,
    Request,
    event,
    job,
    page,
    problem,
    sse,
)
from tests.unit.client.conftest import Clock


def test_the_token_travels_with_every_request(client: Client, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    client.jobs.get(JOB_ID)
    assert api.requests[0].headers["authorization"] == "Bearer secret"


def test_a_name_in_a_path_stays_one_segment(client: Client, api: FakeApi) -> None:
    with pytest.raises(errors.NotFound):
        client.users.get("../jobs?x=1")
    assert api.requests[0].path == "/users/..%2Fjobs%3Fx%3D1"


def test_many_job_files_travel_in_as_few_requests_as_they_fit_in(
    client: Client, api: FakeApi
) -> None:
    def answer(request: Request) -> CannedAnswer:
        items = [{"job": job(name=file["name"]), "problem": None} for file in request.json["items"]]
        return {"created": len(items), "items": items}

    api.on("POST", "/jobs:batch", answer)
    long = [{"name": f"long{number}", "commands": ["#" * 400_000]} for number in range(3)]
    files = [{"name": f"job{number}", "commands": ["true"]} for number in range(150)] + long
    results = client.jobs.submit_many(files, key="k")
    assert [result.name for result in results if isinstance(result, Job)] == [
        file["name"] for file in files
    ]
    requests = api.sent("POST", "/jobs:batch")
    assert [len(request.json["items"]) for request in requests] == [100, 52, 1]
    assert [request.headers["idempotency-key"] for request in requests] == ["k-0", "k-1", "k-2"]


def test_a_refused_job_file_among_many_is_an_error_in_its_place(
    client: Client, api: FakeApi
) -> None:
    items = [{"job": job(), "problem": None}, {"job": None, "problem": TOO_MANY_CPUS}]
    api.on("POST", "/jobs:batch", ConnectionLost, {"created": 1, "items": items})
    accepted, refused = client.jobs.submit_many([{"commands": ["true"]}, {"resources": {"cpu": 9}}])
    assert isinstance(accepted, Job)
    assert isinstance(refused, errors.InvalidInput)
    assert refused.problems[0].allowed == "1 to 2"
    first, second = api.sent("POST", "/jobs:batch")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_lists_go_from_page_to_page(client: Client, api: FakeApi) -> None:
    api.on(
        "GET", "/jobs", page(job(name="a"), next_cursor="more"), page(job(name="b"), job(name="c"))
    )
    assert [found.name for found in client.jobs.list(states=["RUNNING", "QUEUED"])] == [*"abc"]
    first, second = api.requests
    assert first.query["state"] == ["RUNNING", "QUEUED"]
    assert "cursor" not in first.query
    assert second.query["cursor"] == ["more"]


def test_live_sessions_are_listed_without_those_that_have_ended(
    client: Client, api: FakeApi
) -> None:
    api.on("GET", "/jobs", page(job(name="a")))
    assert [found.name for found in client.sessions.list(live=True, search="a")] == ["a"]
    query = api.requests[0].query
    assert (query["type"], query["q"]) == (["session"], ["a"])
    assert set(query["state"]) == set(LIVE)


def test_a_list_fetches_no_more_than_is_wanted(client: Client, api: FakeApi) -> None:
    api.on("GET", "/jobs", page(job(name="a"), job(name="b"), next_cursor="more"))
    assert len(list(client.jobs.list(limit=2))) == 2
    assert len(api.requests) == 1
    assert api.requests[0].query["limit"] == ["2"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(422, "invalid_input", "cpu: too many"), errors.InvalidInput),
        (problem(401, "not_authenticated", "Log in."), errors.NotAuthenticated),
        (problem(403, "not_allowed", "It is not yours."), errors.NotAllowed),
        (problem(404, "not_found", "There is no job x that you may see."), errors.NotFound),
        (problem(409, "idempotency_conflict", "Another body."), errors.IdempotencyConflict),
        (problem(409, "unheard_of", "No."), errors.Conflict),
        (Answer(413, [b"<html>too large</html>"]), errors.InvalidInput),
        (problem(500, "internal", "A bug."), errors.AitneError),
    ],
)
def test_problems_become_the_errors_they_were(
    client: Client, api: FakeApi, answer: CannedAnswer, kind: type[Exception]
) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", answer)
    with pytest.raises(kind) as caught:
        client.jobs.get(JOB_ID)
    assert type(caught.value) is kind


def test_a_problem_keeps_its_fields_and_its_sentence(client: Client, api: FakeApi) -> None:
    wrong = {"field": "resources.cpu", "message": "too many", "value": 99, "allowed": "at most 2"}
    api.on("POST", "/jobs:plan", problem(422, "invalid_input", "resources.cpu: too many", wrong))
    with pytest.raises(errors.InvalidInput, match="too many") as caught:
        client.jobs.plan({"resources": {"cpu": 99}})
    assert caught.value.problems == (
        errors.FieldProblem("resources.cpu", "too many", "99", "at most 2"),
    )


def test_too_many_tries_say_when_to_come_back(client: Client, api: FakeApi) -> None:
    answer = problem(429, "rate_limited", "Too many.")
    answer.headers["Retry-After"] = "30"
    api.on("GET", "/me", answer)
    with pytest.raises(errors.RateLimited) as caught:
        client.me()
    assert caught.value.retry_after_s == 30


def test_creating_survives_a_lost_answer_with_one_key(client: Client, api: FakeApi) -> None:
    api.on("POST", "/jobs", ConnectionLost, Refused, problem(503, "unavailable", "Busy."), job())
    assert client.jobs.create({"commands": ["true"]}).id == JOB_ID
    assert len(api.requests) == 4
    assert len({request.headers["idempotency-key"] for request in api.requests}) == 1


def test_request_without_idempotency_is_not_repeated(client: Client, api: FakeApi) -> None:
    api.on("POST", f"/sessions/{JOB_ID}/extend", ConnectionLost, job())
    with pytest.raises(Unreachable, match="may or may not have been carried out"):
        client.sessions.extend(JOB_ID, "1h")
    assert len(api.requests) == 1


def test_request_that_was_never_sent_is_repeated(client: Client, api: FakeApi) -> None:
    api.on("POST", f"/sessions/{JOB_ID}/extend", Refused, job())
    client.sessions.extend(JOB_ID, "1h")
    assert len(api.requests) == 2


def test_patience_ends(client: Client, api: FakeApi, clock: Clock) -> None:
    api.on("GET", "/me", Refused)
    with pytest.raises(Unreachable, match="does not answer"):
        client.me()
    assert clock.now == pytest.approx(client.platform.patience_s)


def test_a_record_is_lenient(client: Client, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", {"id": JOB_ID, "state": "NEW_STATE", "novelty": 1})
    found = client.jobs.get(JOB_ID)
    assert found.state == "NEW_STATE"
    assert found.owner is None
    assert found.raw["novelty"] == 1


def test_times_are_aware_and_parts_are_records(client: Client, api: FakeApi) -> None:
    stage = {"key": "queued", "title": "Queued", "status": "done", "started_at": None}
    api.on("GET", f"/jobs/{JOB_ID}", job(stages=[stage]))
    found = client.jobs.get(JOB_ID)
    assert found.created_at.utcoffset() is not None
    assert found.stages[0].title == "Queued"
    assert str(found.resources.gpu) == "0"


def test_events_are_resumed_after_the_last_one_seen(client: Client, api: FakeApi) -> None:
    api.on("GET", "/events", sse(event(8), cut=True), sse(event(9)))
    stream = client.events()
    assert [next(stream).id, next(stream).id] == [8, 9]
    first, second = api.requests
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "8"


def test_waiting_looks_when_something_happens(client: Client, api: FakeApi) -> None:
    api.on(
        "GET",
        f"/jobs/{JOB_ID}",
        job("QUEUED"),
        job("QUEUED"),
        job("RUNNING", version=2),
        job("COMPLETED", version=3),
    )
    other = event(8, job_id="00000000-0000-4000-8000-000000000002")
    api.on("GET", "/events", sse(other, event(9), event(10)))
    seen = [found.state for found in client.jobs.watch(JOB_ID)]
    assert seen == ["QUEUED", "RUNNING", "COMPLETED"]
    assert len(api.sent("GET", f"/jobs/{JOB_ID}")) == 4


def test_waiting_for_a_task_looks_when_several_tasks_of_its_array_change(
    client: Client, api: FakeApi
) -> None:
    array = "00000000-0000-4000-8000-000000000000"
    states = (job("QUEUED", array_job_id=array), job("CANCELLED", array_job_id=array, version=2))
    api.on("GET", f"/jobs/{JOB_ID}", *states)
    group = "00000000-0000-4000-8000-0000ffffffff"
    change = {**event(8, group), "data": {"array_job_id": array, "task_group": True}}
    api.on("GET", "/events", sse(change))
    assert client.jobs.wait(JOB_ID).state == "CANCELLED"


def test_waiting_ends_in_time(client: Client, api: FakeApi, clock: Clock) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", "/events", sse())
    with pytest.raises(WaitTimeout, match="continues"):
        client.jobs.wait(JOB_ID, timeout_s=3)
    assert 3 <= clock.now < 6


def test_a_session_that_ends_is_not_waited_for(client: Client, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("FAILED", message="No room on the disk."))
    with pytest.raises(JobEnded, match="No room"):
        client.sessions.wait_ready(JOB_ID)


def log(text: bytes, offset: int, size: int, *, cut: bool = False) -> Answer:
    headers = {"X-Log-Offset": str(offset), "X-Log-Size": str(size)}
    return Answer(200, [text] if text else [], headers, cut)


def test_a_long_log_is_read_in_pieces(client: Client, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}/logs", log(b"abc", 0, 5), log(b"de", 3, 5))
    assert b"".join(client.jobs.logs(JOB_ID)) == b"abcde"
    assert [request.query["offset"] for request in api.requests] == [["0"], ["3"]]


def test_following_a_log_goes_on_at_the_same_byte(client: Client, api: FakeApi) -> None:
    def logs(request: Request) -> Answer:
        return answers.pop(0)

    answers = [
        log(b"abc", 0, 3, cut=True),
        log(b"de", 3, 5, cut=False),
        log(b"", 5, 7),
        log(b"fg", 5, 7),
    ]
    api.on("GET", f"/jobs/{JOB_ID}/logs", logs)
    api.on("GET", f"/jobs/{JOB_ID}", job(), job(), job(), job("COMPLETED"))
    assert b"".join(client.jobs.follow_logs(JOB_ID)) == b"abcdefg"
    asked = api.sent("GET", f"/jobs/{JOB_ID}/logs")
    assert [request.query["offset"][0] for request in asked] == ["0", "3", "5", "5"]


def test_following_over_a_further_attempt_repeats_nothing(client: Client, api: FakeApi) -> None:
    # The platform itself goes over to the second attempt's log within one stream.
    api.on("GET", f"/jobs/{JOB_ID}/logs", log(b"first second", 0, 6))
    api.on("GET", f"/jobs/{JOB_ID}", job(), job("COMPLETED", attempt=2))
    assert b"".join(client.jobs.follow_logs(JOB_ID)) == b"first second"


def test_starting_a_session_names_type_and_template(client: Client, api: FakeApi) -> None:
    api.on("POST", "/sessions", job("PENDING_SUBMIT", type="session"))
    client.sessions.start("jupyterlab", job_file={"name": "mine"})
    assert api.requests[0].json == {"type": "session", "template": "jupyterlab", "name": "mine"}
    assert api.requests[0].headers["idempotency-key"]


def test_accounts_and_tokens(client: Client, api: FakeApi) -> None:
    user = {"name": "ada", "role": "user", "disabled": False}
    api.on("POST", "/users", user)
    api.on("PATCH", "/users/ada", {**user, "disabled": True})
    api.on("POST", "/tokens", {"id": "t1", "token": "aitne_pat_x"})
    api.on("DELETE", "/tokens/t1", Answer(204))
    assert client.users.create("ada", password="correct horse").name == "ada"
    assert client.users.change("ada", disabled=True).disabled
    assert client.tokens.create("ci", user="ada", expires_in=None).token == "aitne_pat_x"
    client.tokens.revoke("t1")
    assert api.sent("POST", "/users")[0].json == {
        "name": "ada",
        "role": "user",
        "password": "correct horse",
    }
    assert api.sent("POST", "/tokens")[0].json == {
        "name": "ci",
        "scopes": ["read", "write"],
        "expires_in": None,
        "user": "ada",
    }


def test_malformed_problem_document_is_tolerated(client: Client, api: FakeApi) -> None:
    for document in ("[]", '{"problems": 3, "code": []}', '{"problems": [7]}', "nonsense"):
        api.on("GET", "/me", Answer(422, [document.encode()]))
        with pytest.raises(errors.InvalidInput, match="422"):
            client.me()


def test_old_names_of_methods_and_parameters_warn_and_work(client: Client, api: FakeApi) -> None:
    position = {"position": 2, "waiting": 3, "partition": "gpu"}
    api.on("GET", f"/jobs/{JOB_ID}/queue", {"position": position, "advice": []})
    api.on("GET", "/jobs", page(job(name="a"), job(name="b"), next_cursor="more"))
    with pytest.warns(DeprecationWarning, match=r"0\.3\. Use jobs\.queue_position\."):
        place = client.jobs.queue_place(JOB_ID)
    assert place is not None
    assert place.position == 2
    with pytest.warns(DeprecationWarning, match=r"most= is deprecated .* Use limit=\.") as caught:
        assert len(list(client.jobs.list(most=2))) == 2
    assert caught[0].filename == __file__, "the warning names the caller's line"
