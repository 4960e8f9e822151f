"""Errors keep their type over the broker's socket."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aitne.broker.verb_handlers import check_handlers
from aitne.core import errors
from aitne.core.broker.error_conversion import error_from_wire, error_to_wire

SPECIAL = [
    errors.InvalidInput.field("slurm.qos", "unknown", value="x", allowed="normal"),
    errors.SchedulerRejected("no", "slurm.partition"),
    errors.RateLimited("slowly", 2.5),
    errors.NotFound("job", "1"),
]
PLAIN = [
    kind("a sentence")
    for kind in (
        errors.NotAllowed,
        errors.SetupError,
        errors.Unavailable,
        errors.SchedulerUnavailable,
        errors.SubmitUncertain,
        errors.SubmitUnclear,
        errors.CommandTimeout,
        errors.NotSupported,
        errors.StaleEpoch,
    )
]


@pytest.mark.parametrize("error", [*SPECIAL, *PLAIN], ids=lambda error: error.code)
def test_there_and_back(error: errors.AitneError) -> None:
    back = error_from_wire(json.loads(json.dumps(error_to_wire(error))))
    assert type(back) is type(error)
    assert vars(back) == vars(error)


def test_a_template_error_stays_an_error_of_input() -> None:
    back = error_from_wire(error_to_wire(errors.TemplateError("a.yml", 3, "no name")))
    assert type(back) is errors.InvalidInput
    assert back.message == "a.yml:3: no name"


def test_an_adapters_own_error_arrives_as_the_one_that_the_port_names() -> None:
    class OutOfPaper(errors.SchedulerUnavailable):
        code = "out_of_paper"

    back = error_from_wire(error_to_wire(OutOfPaper("no paper")))
    assert type(back) is errors.SchedulerUnavailable
    assert back.message == "no paper"


def test_a_code_means_its_own_class_whatever_was_imported_before() -> None:
    # A class of services that has no code of its own, imported before the codes are listed.
    program = (
        "from aitne.services.users.login_service import IdentityUnavailable\n"
        "from aitne.core.broker.error_conversion import error_from_wire\n"
        "print(type(error_from_wire({'code': IdentityUnavailable.code})).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Unavailable\n"


def test_a_code_from_a_later_release_is_no_answer() -> None:
    back = error_from_wire({"code": "moon_phase", "message": "full"})
    assert type(back) is errors.Unavailable
    assert "full" in back.message


def test_every_verb_has_somebody_who_does_it() -> None:
    check_handlers()
