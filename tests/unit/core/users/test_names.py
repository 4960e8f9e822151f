"""Names of users: the rules of identity sources, and what carries a name to other systems."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from aitne.adapters.accounting._accounting_output_parser import make_sacctmgr_arguments
from aitne.adapters.unix_account_mapping import UnixUser, jobs_folder
from aitne.client.http_transport import percent_encode as client_quote
from aitne.core.jobs.batch_script import render_script
from aitne.core.models.base import PROJECT_NAME, USER_NAME, ProjectName, UserName, check_passable
from aitne.core.models.resources import Resources
from aitne.core.ports.accounting import AddAccount, AddMember, RemoveMember, SetDefault
from aitne.core.sessions.entry_points import session_url
from aitne.core.sessions.host_names import user_label
from aitne.core.storage.areas import AreaOwner, fill_placeholders
from aitne.core.users.user_names import (
    NameRule,
    NameRules,
    get_account_name,
    identity_key,
    name_key,
)
from aitne.services.users.login_service import make_default_project_name

NAMES = st.from_regex(USER_NAME.rstrip("$"), fullmatch=True)
PROJECTS = st.from_regex(PROJECT_NAME.rstrip("$"), fullmatch=True)
JOB_ID = UUID("0b4e1b5a-7c1d-4a7e-9a0c-000000000000")
USER: TypeAdapter[str] = TypeAdapter(UserName)
PROJECT: TypeAdapter[str] = TypeAdapter(ProjectName)
# A bidirectional control, a combining accent, a full-width letter, the Kelvin sign, a dotted I.
ODD = ("\u202eada", "ada\u2066", "ade\u0301", "\uff21da", "\u212aelvin", "\u0130da", "ad\u0430")


@pytest.mark.parametrize(
    "name", ["anna.b", "bob@uni.example", "Anna", "1234567", "a" * 33, "_x", "a--b", "A.b-c_d@e"]
)
def test_names_of_unix_accounts_are_names_of_users(name: str) -> None:
    assert USER.validate_python(name) == name
    assert NameRule().account_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "-x", ".", "..", ".a", "@a", "a/b", "a b", "a,b", "a=b", "a\nb", "a\0", "ada\n"),
        *("a:b", "a%b", "a" * 129, *ODD),
    ],
)
def test_names_that_a_carrier_cannot_carry_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        USER.validate_python(name)
    for rule in (NameRule(), NameRule(lower_case=True)):
        with pytest.raises(ValueError, match="the name of an account"):
            rule.account_name(name)


@pytest.mark.parametrize(
    ("rule", "reported", "name"),
    [
        ({}, "Ada@example.org", "Ada@example.org"),
        ({"domains": ["example.org"]}, "Ada@EXAMPLE.org", "Ada"),
        ({"domains": ["example.org"], "lower_case": True}, "Ada@example.org", "ada"),
        ({"domains": ["example.org"]}, "ada@sub.example.org", "ada@sub.example.org"),
        ({"domains": ["example.org"]}, "ada@other.org@example.org", "ada@other.org"),
        ({"pattern": r"[a-z]+"}, "ada", "ada"),
        ({"pattern": r"UNI\\(.+)"}, "UNI\\ada", "ada"),
        ({"pattern": r"(?:UNI\\)?([a-z]+)"}, "ada", "ada"),
    ],
)
def test_a_rule_makes_the_name_of_the_account(
    rule: dict[str, object], reported: str, name: str
) -> None:
    assert NameRule.model_validate(rule).account_name(reported) == name


@pytest.mark.parametrize(
    ("rule", "reported", "reason"),
    [
        ({"pattern": r"[a-z]+"}, "ada2", "does not match the pattern"),
        ({"pattern": r"[a-z]+"}, "ada\n", "does not match the pattern"),
        ({"domains": ["example.org"]}, "@example.org", "the name of an account"),
        ({}, "a" * 257, "longer than 256"),
    ],
)
def test_a_rule_refuses_other_names(rule: dict[str, object], reported: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        NameRule.model_validate(rule).account_name(reported)


@pytest.mark.parametrize(
    "rule", [{"pattern": "("}, {"pattern": "(a)(b)"}, {"domains": ["@a.org"]}, {"domains": ["*"]}]
)
def test_a_rule_that_cannot_be_used_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NameRule.model_validate(rule)


def test_rules_of_sources() -> None:
    rules = NameRules(ldap=NameRule(domains=["a.org"]), password=NameRule(domains=["b.org"]))
    assert rules.get_rule("oidc").lower_case
    assert rules.get_rule("someone_elses") == rules.password
    assert rules.domains == {"a.org", "b.org"}


def test_names_that_look_alike_have_one_key() -> None:
    assert len({name_key(name) for name in ("Ada", "ADA", "ada", "\uff21da", "\uff41DA")}) == 1
    assert name_key("ad\u00e9") == name_key("ade\u0301")
    assert name_key("ada") != name_key("adb")


def test_identity_with_a_name_alone_is_the_same_but_for_capitals() -> None:
    assert identity_key("Ada@A.example") == identity_key("ada@a.example")
    assert len({identity_key(name) for name in ("sam", "\u017fam", "\uff53am", "s\u0430m")}) == 4


def test_an_account_of_another_user_is_refused() -> None:
    accounts = {"ada": "lovelace"}
    assert get_account_name("ada", accounts) == "lovelace"
    assert get_account_name("bob", accounts) == "bob"
    with pytest.raises(ValueError, match="to the user ada"):
        get_account_name("lovelace", accounts)


def folder_of(name: str) -> str:
    user = UnixUser(name, 1_500, 100, (100,), "/home/x")
    return str(jobs_folder("/jobs/{user}", user))


def area_of(name: str) -> str:
    return fill_placeholders("/scratch/{user}", AreaOwner(user=name, uid=1, home="/home/x"))


@given(NAMES, NAMES)
def test_paths_carry_a_name(one: str, other: str) -> None:
    for path, root in ((folder_of, "/jobs"), (area_of, "/scratch")):
        assert PurePosixPath(path(one)).parent == PurePosixPath(root)
        assert (path(one) == path(other)) == (one == other)
    assert check_passable(one) == one


@given(NAMES, NAMES)
def test_urls_carry_a_name(one: str, other: str) -> None:
    def hub(name: str) -> str:
        return session_url("https://s.test", name, JOB_ID)

    for url in (hub, client_quote):
        assert (url(one) == url(other)) == (one == other)
    parts = urlsplit(hub(one))
    # As JupyterHub escapes it: its servers compare paths literally.
    assert parts.path.split("/")[2] == one
    assert (parts.query, parts.fragment) == ("", "")
    assert unquote(client_quote(one)) == one
    assert re.fullmatch(r"[A-Za-z0-9_.%~-]+", client_quote(one))


@given(NAMES, NAMES)
def test_host_names_carry_a_name(one: str, other: str) -> None:
    assert (user_label(one) == user_label(other)) == (one == other)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", user_label(one))


@given(NAMES, PROJECTS)
def test_commands_of_slurm_carry_names(user: str, project: str) -> None:
    changes = (
        AddAccount(account=project),
        AddMember(account=project, user=user),
        RemoveMember(account=project, user=user),
        SetDefault(account=project, user=user, before=None),
    )
    for change in changes:
        words = make_sacctmgr_arguments(change, "dev")
        values = [word.partition("=")[2] for word in words if "=" in word]
        assert project in values
        assert user in values or change == changes[0]
        # A name is never a word of its own, which could be one of sacctmgr's.
        assert not any(word in (user, project) for word in words if "=" not in word) or (
            {user, project} & {"add", "account", "user", "delete", "where", "modify", "set"}
        )
        assert not any(word.startswith("-") or "," in word for word in words)


@given(PROJECTS)
def test_batch_scripts_carry_a_project(project: str) -> None:
    text = render_script(
        job_id=JOB_ID,
        attempt=1,
        session=False,
        project=project,
        resources=Resources(),
        time_limit_s=60,
        array=None,
        job_dir="/jobs/1",
        agent=("agent",),
    )
    line = next(line for line in text.splitlines() if line.startswith("export AITNE_PROJECT="))
    assert shlex.split(line) == ["export", f"AITNE_PROJECT={project}"]


@given(NAMES)
def test_every_user_has_a_name_for_a_project(name: str) -> None:
    assert PROJECT.validate_python(make_default_project_name(name))


@pytest.mark.parametrize("name", ["2024.phys", "p_1", "a" * 64, "1st"])
def test_accounts_of_slurm_are_names_of_projects(name: str) -> None:
    assert PROJECT.validate_python(name) == name


@pytest.mark.parametrize("name", ["", "..", ".a", "-a", "A", "a/b", "a@b", "a,b", "a" * 65])
def test_names_of_projects_that_slurm_cannot_carry_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        PROJECT.validate_python(name)
