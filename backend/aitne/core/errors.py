"""Every error the platform raises on purpose.

The tree, independent of HTTP and of any outside system::

    AitneError
    ├── InvalidInput            the request is invalid (field, value, allowed)
    │   └── TemplateError       a template file is wrong (file, line)
    ├── NotFound                no such object, or none that the actor may know of
    ├── NotAllowed              the actor may not do this
    │   ├── NotAuthenticated    no user is logged in, or the credential is wrong
    │   └── ReauthenticationRequired  the user must authenticate again
    ├── Conflict                the object is not in a state that permits this
    │   ├── IdempotencyConflict the key was used before with another body
    │   ├── IllegalTransition   the state machine has no such edge
    │   ├── ManifestMissing     a dataset's manifest must be uploaded first
    │   └── StaleEpoch          another controller is the leader; the update was rejected
    ├── RateLimited             too many attempts; states when to try again
    ├── SetupError              the platform cannot start as configured; states what to do
    └── Unavailable             an outside system does not answer; nothing is known to have failed
        ├── SchedulerUnavailable
        │   └── SubmitUncertain  the scheduler may or may not hold the job
        │       └── SubmitUnclear  its command ended without saying so
        ├── CommandTimeout
        ├── HubUnavailable
        └── StoreUnavailable
    SchedulerRejected(AitneError)  the scheduler rejected the request
    NotSupported(AitneError)       the adapter in use cannot do that at all
    DeliveryFailed(AitneError)     a message was not accepted; states whether to try again

A message says what happened, why, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """Problem with one field of a request.

    ``field`` is a dotted path as the user wrote it (``resources.gpu``), ``value`` the value given,
    ``allowed`` what would have been accepted.
    """

    field: str
    message: str
    value: str | None = None
    allowed: str | None = None


class AitneError(Exception):
    """Base class of all errors. ``code`` is a stable machine-readable word, ``message`` a
    sentence."""

    code = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a traceback, whose frames are the platform's own."""
        return [f"{type(self).__name__}: {self.message}"]


class InvalidInput(AitneError):
    """Invalid request; ``problems`` name each field, its value and what is allowed."""

    code = "invalid_input"

    def __init__(self, message: str, problems: Sequence[FieldProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)

    def _render_traceback_(self) -> list[str]:
        allowed = [f"  {p.field}: allowed: {p.allowed}" for p in self.problems if p.allowed]
        return [*super()._render_traceback_(), *allowed]

    @classmethod
    def field(
        cls, field: str, message: str, *, value: object = None, allowed: str | None = None
    ) -> InvalidInput:
        """Return an error for the common case that exactly one field is wrong."""
        shown = None if value is None else str(value)
        return cls(f"{field}: {message}", [FieldProblem(field, message, shown, allowed)])


class TemplateError(InvalidInput):
    """A template file is wrong; the other templates remain available."""

    code = "template_error"

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        position = path if line is None else f"{path}:{line}"
        super().__init__(f"{position}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class NotFound(AitneError):
    """There is no such object, or the actor must not know of it: both cases have the same
    answer.
    """

    code = "not_found"

    def __init__(self, kind: str, name: object, sentence: str | None = None) -> None:
        super().__init__(
            sentence or f"The {kind} {name} does not exist, or you have no access to it."
        )
        self.kind = kind
        self.name = str(name)


class NotAllowed(AitneError):
    """The actor is authenticated but not permitted to do this."""

    code = "not_allowed"


class NotAuthenticated(NotAllowed):
    """No user is logged in, or the credential is wrong, expired or revoked."""

    code = "not_authenticated"


class ReauthenticationRequired(NotAllowed):
    """The user must authenticate again before this change."""

    code = "reauthentication_required"


class Conflict(AitneError):
    """The object is not in a state that permits this."""

    code = "conflict"


class AuthorizationPending(Conflict):
    """The user has not confirmed the login of a program yet (RFC 8628); ask again later."""

    code = "authorization_pending"


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with another request body."""

    code = "idempotency_conflict"


class IllegalTransition(Conflict):
    """The state machine does not permit the transition from the object's current state to the
    requested one.
    """

    code = "illegal_transition"


class ManifestMissing(Conflict):
    """The platform does not have the manifest that a dataset names: it must be uploaded first."""

    code = "manifest_missing"


class StaleEpoch(Conflict):
    """Another controller has become the leader; the update was rejected."""

    code = "stale_epoch"


class ChangedMeanwhile(AitneError):
    """Another change was made since the caller read the object."""

    code = "changed_meanwhile"


class RateLimited(AitneError):
    """Too many attempts; ``retry_after_s`` is the time until the next one is accepted, in
    seconds."""

    code = "rate_limited"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SetupError(AitneError):
    """The platform cannot start as configured; the message states what to do."""

    code = "setup_error"


class Unavailable(AitneError):
    """An outside system does not answer. Nothing is known to have failed or finished."""

    code = "unavailable"


class StorageFull(Unavailable):
    """No space is left for files of a user, who can delete some."""

    code = "storage_full"


class StoreUnavailable(Unavailable):
    """The database does not answer, is full, read-only or damaged."""

    code = "store_unavailable"


class SchedulerUnavailable(Unavailable):
    """The scheduler does not answer."""

    code = "scheduler_unavailable"


class SubmitUncertain(SchedulerUnavailable):
    """The scheduler may or may not have accepted the job: search for its UUID before submitting
    again.
    """

    code = "submit_uncertain"


class SubmitUnclear(SubmitUncertain):
    """The scheduler's command has ended, but did not say whether the job was accepted: repeated too
    often, it is not an outage.
    """

    code = "submit_unclear"


class CommandTimeout(Unavailable):
    """A command did not end in time and was killed; its effect until then is unknown."""

    code = "command_timeout"


class HubUnavailable(Unavailable):
    """JupyterHub does not answer."""

    code = "hub_unavailable"


class SchedulerRejected(AitneError):
    """The scheduler rejected the request; trying again changes nothing.

    ``field`` is the part of the job file that it rejected, where that is known.
    """

    code = "scheduler_rejected"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotSupported(AitneError):
    """The adapter in use does not support the operation; the message states which adapters do."""

    code = "not_supported"


class DeliveryFailed(AitneError):
    """The receiver did not accept a message. ``again`` is True if a retry may succeed; ``status``
    is the status code of the receiver.
    """

    code = "delivery_failed"

    def __init__(self, message: str, *, again: bool, status: int | None = None) -> None:
        super().__init__(message)
        self.again = again
        self.status = status
