"""Projects and accounts compared: what is applied is gone the next time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aitne.core.models.limits import MIB, Limits
from aitne.core.ports.accounting import (
    AddAccount,
    AddMember,
    Association,
    Associations,
    RemoveMember,
    SetDefault,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
    SlurmUser,
)
from aitne.core.projects.slurm_account_changes import (
    AccountingTarget,
    list_changes,
    map_lowered_names,
)
from tests.support.accounting import applied

ACCOUNTS = st.sampled_from(["nlp", "vision", "audio"])
USERS = st.sampled_from(["ada", "bob", "eve", "op"])
COUNT = st.none() | st.integers(0, 9)
LIMITS = st.builds(
    Limits,
    max_gpus=COUNT,
    max_gpus_by_type=st.dictionaries(st.sampled_from(["a100", "1g.10gb"]), st.integers(0, 9)),
    max_jobs=COUNT,
    max_memory_bytes=st.none() | st.integers(0, 9).map(lambda count: count * MIB),
    max_wall_s=st.none() | st.integers(0, 9).map(lambda count: count * 60),
    gpu_hours=COUNT,
    qos=st.lists(st.sampled_from(["long", "normal", "debug"]), max_size=4).map(tuple),
)
PAIRS = st.dictionaries(st.tuples(ACCOUNTS, USERS), LIMITS)
ROOT = Association(account="root")


@st.composite
def slurm(draw: st.DrawFn) -> Associations:
    accounts = draw(st.dictionaries(ACCOUNTS | st.just("physics"), LIMITS))
    members = {key: limits for key, limits in draw(PAIRS).items() if key[0] in accounts}
    users = {}
    for account, user in members:
        users.setdefault(user, account)
    return Associations(
        cluster="dev",
        accounts=(
            ROOT,
            *(Association(account=n, parent="root", limits=v) for n, v in accounts.items()),
        ),
        members=tuple(Association(account=a, user=u, limits=v) for (a, u), v in members.items()),
        users=tuple(
            SlurmUser(name=name, default_account=account) for name, account in users.items()
        ),
    )


@st.composite
def portal(draw: st.DrawFn) -> AccountingTarget:
    accounts = draw(st.dictionaries(ACCOUNTS, LIMITS))
    members = {key: limits for key, limits in draw(PAIRS).items() if key[0] in accounts}
    defaults = {user: account for account, user in members if draw(st.booleans())}
    return AccountingTarget(accounts, members, defaults, frozenset({"op"}))


@given(portal(), slurm())
def test_applied_changes_leave_no_difference(wanted: AccountingTarget, found: Associations) -> None:
    changes = list_changes(wanted, found)
    now = found
    for change in changes:
        now = applied(now, change)
    assert list_changes(wanted, now) == []
    kept = {each.account for each in found.accounts} - wanted.accounts.keys()
    before = [each for each in found.accounts if each.account in kept]
    assert [each for each in now.accounts if each.account in kept] == before
    for each in found.members:  # of accounts that are no projects, nothing goes
        if each.account not in wanted.accounts or each.user == "op":
            assert (each.account, each.user) in {(m.account, m.user) for m in now.members}


@given(portal())
def test_an_empty_slurm_gets_everything(wanted: AccountingTarget) -> None:
    changes = list_changes(wanted, Associations(cluster="dev", accounts=(ROOT,)))
    assert sum(isinstance(each, AddAccount) for each in changes) == len(wanted.accounts)
    assert sum(isinstance(each, AddMember) for each in changes) == len(wanted.members)
    assert not any(isinstance(each, RemoveMember | SetDefault) for each in changes)


def test_drift_is_told_as_it_is() -> None:
    wanted = AccountingTarget(
        {"vision": Limits(max_gpus=8, qos=("long", "normal")), "root": Limits()},
        {("vision", "ada"): Limits(max_gpus=4)},
        {"ada": "vision"},
    )
    found = Associations(
        cluster="dev",
        accounts=(
            Association(account="root", limits=Limits(max_jobs=1)),
            Association(
                account="vision",
                parent="root",
                limits=Limits(max_gpus=16, max_gpus_by_type={"h200": 1}, qos=("normal", "long")),
            ),
        ),
        members=(
            Association(account="vision", user="ada"),
            Association(account="vision", user="mallory"),
            Association(account="root", user="root"),
        ),
        users=(SlurmUser(name="ada", default_account="root"),),
    )
    assert list_changes(wanted, found) == [
        SetDefault(account="vision", user="ada", before="root"),
        SetLimit(account="root", limit="max_jobs", before=1, after=None),
        SetLimit(account="vision", limit="max_gpus", before=16, after=8),
        SetGpuTypeLimit(account="vision", type="h200", before=1, after=None),
        SetLimit(account="vision", user="ada", limit="max_gpus", before=None, after=4),
        RemoveMember(account="vision", user="mallory"),
    ]
    shrunk = AccountingTarget({"vision": Limits()}, {}, {})
    assert SetQos(account="vision", before=("long", "normal"), after=()) in list_changes(
        shrunk, found
    )


def test_names_that_slurm_stores_in_lower_case_are_not_added_again() -> None:
    """Slurm lowers the names of users unless it is told to preserve them."""
    target = AccountingTarget(
        accounts={"vision": Limits()},
        members={("vision", "Anna"): Limits(), ("vision", "Bob"): Limits()},
        defaults={"Anna": "vision"},
    )
    current = Associations(
        cluster="dev",
        accounts=(ROOT, Association(account="vision", parent="root")),
        members=(
            Association(account="vision", user="anna"),
            Association(account="vision", user="Bob"),
        ),
        users=(
            SlurmUser(name="anna", default_account="vision"),
            SlurmUser(name="Bob", default_account="vision"),
        ),
    )
    assert map_lowered_names(target, current) == {"anna": "Anna"}
    assert list_changes(target, current) == []
