"""The measures of `check_language.py`, each with the files that it counts in.

A measure is a function from `Sources` to a `Result`; it reads no files. The backend is the Python of
`backend/aitne`, the frontend the TypeScript and the locale files of `frontend/src`, the tests are
the Python of `tests`, `benchmarks` and `scripts`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

PRIVATE_WORDS = re.compile(r"\b(?:nobody|somebody|whoever|everybody)\b", re.IGNORECASE)
# In backticks, `nobody` is the Unix account.
PRIVATE_PROSE = re.compile(rf"(?<!`){PRIVATE_WORDS.pattern}", re.IGNORECASE)
RANKED_NAMES = 60
# Pronouns, interrogatives and participles; `name`, `now` or `number` say what a value is.
VAGUE_NAMES = re.compile(
    r"""(?x)
    all | another | any | anything | asked | begun | both | brought | called | chosen | done |
    each | ended | every | everything | few | found | given | gone | heard | held | her | hers |
    him | his | it | its | kept | known | left | lost | made | many | meant | mine | more | most
    | nothing | one | ones | other | others | ours | own | put | read | said | seen | sent | set
    | shown | shut | some | something | started | taken | that | theirs | them | these | they |
    this | those | thrown | told | tried | used | wanted | what | where | which | who | whom |
    whose | why | written | yours
    """
)
TEST_DEFINITION = re.compile(r"^[ \t]*(?:async )?def (test_(\w+?)(?:_\w*)?)\(", re.MULTILINE)
TEST_PRONOUNS = re.compile(
    r"""(?x)
    another | anybody | anyone | anything | everybody | everyone | everything | it | its | mine
    | nobody | none | nothing | one | ones | others | ours | own | somebody | someone |
    something | that | theirs | them | these | they | this | those | what | whatever | which |
    who | whoever | whom | whose
    """
)
# Vague names of variables that are verbs in the name of a function.
IMPERATIVES = re.compile(r"put|read|set|shut")
PLACES = re.compile(r"here|there")
HELPERS = ("tests/support/", "tests/machines/")
COMMENT = re.compile(r"(?:^|\s)#\s.*", re.MULTILINE)
NAMESPACES = (ast.Module, ast.ClassDef)
DOCUMENTED = (*NAMESPACES, ast.FunctionDef, ast.AsyncFunctionDef)
CLAUSE = re.compile(r"(?:How|What(?:ever)?|Where|Whether|Which|Who(?:ever|m|se)?|Why)\b")
SHORT_DOCSTRING_WORDS = 3
SEE_THE_PORT = "See the port"


@dataclass(frozen=True)
class Use:
    """One place that a measure counts."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Result:
    """The count of a measure, the places it comes from, and a detail for the message."""

    count: int
    uses: list[Use]
    detail: str = ""


@dataclass(frozen=True)
class Source:
    """A file with its text; `parse` adds the definitions, docstrings and names of a module."""

    path: str
    text: str
    classes: list[Use] = field(default_factory=list)
    definitions: list[Use] = field(default_factory=list)
    docstrings: list[Use] = field(default_factory=list)
    bindings: list[Use] = field(default_factory=list)


@dataclass(frozen=True)
class Sources:
    """All files that are measured."""

    backend: list[Source]
    frontend: list[Source]
    tests: list[Source]


@dataclass(frozen=True)
class Measure:
    """A counting function with the text of its failure."""

    count: Callable[[Sources], Result]
    meaning: str
    remedy: str


def parse(path: str, text: str) -> Source:
    """Parse a Python module once for all measures.

    Collects top-level classes, docstrings, definitions (all functions and classes, and the targets
    of assignments at the top level), and for each function the names it binds: parameters and the
    targets of assignments, loops, comprehensions and `with`. A name counts once for each function;
    exception names and imports do not count.
    """
    source = Source(path, text)
    tree = ast.parse(text, path)
    source.classes.extend(
        Use(path, node.lineno, node.name) for node in tree.body if isinstance(node, ast.ClassDef)
    )
    source.definitions.extend(
        Use(path, name.lineno, name.id)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    )
    stack: list[tuple[ast.AST, dict[str, int] | None]] = [(tree, None)]
    scopes: list[dict[str, int]] = []
    while stack:
        node, bound = stack.pop()
        if isinstance(node, ast.Name):
            if bound is not None and isinstance(node.ctx, ast.Store):
                bound[node.id] = min(node.lineno, bound.get(node.id, node.lineno))
            continue
        if isinstance(node, DOCUMENTED):
            docstring = ast.get_docstring(node)
            if docstring:
                source.docstrings.append(Use(path, node.body[0].lineno, docstring))
            if not isinstance(node, ast.Module):
                source.definitions.append(Use(path, node.lineno, node.name))
            bound = None
            if not isinstance(node, NAMESPACES):
                bound = {}
                scopes.append(bound)
        elif isinstance(node, ast.arg) and bound is not None:
            bound[node.arg] = min(node.lineno, bound.get(node.arg, node.lineno))
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                stack.extend((child, bound) for child in value if isinstance(child, ast.AST))
            elif isinstance(value, ast.AST):
                stack.append((value, bound))
    source.bindings.extend(
        Use(path, line, name)
        for scope in scopes
        for name, line in scope.items()
        if name not in ("self", "cls", "_")
    )
    return source


def duplicated_classes(sources: Sources) -> dict[str, list[Use]]:
    """Return the duplicated public top-level class names of the backend with their definitions."""
    definitions: dict[str, list[Use]] = defaultdict(list)
    for source in sources.backend:
        for use in source.classes:
            if not use.text.startswith("_"):
                definitions[use.text].append(use)
    return {name: uses for name, uses in definitions.items() if len(uses) > 1}


def duplicate_class_names(sources: Sources) -> Result:
    """Count the public top-level class names that the backend defines more than once."""
    duplicates = duplicated_classes(sources)
    return Result(len(duplicates), [use for uses in duplicates.values() for use in uses])


def duplicate_class_definitions(sources: Sources) -> Result:
    """Count the definitions beyond the first of each public top-level class name."""
    duplicates = duplicated_classes(sources)
    uses = [use for uses in duplicates.values() for use in uses]
    return Result(len(uses) - len(duplicates), uses)


def occurrences(pattern: re.Pattern[str], sources: Iterable[Source]) -> Result:
    """Count the matches of a pattern in whole files: code, comments, docstrings and messages."""
    uses = [
        Use(source.path, source.text.count("\n", 0, match.start()) + 1, match[0])
        for source in sources
        for match in pattern.finditer(source.text)
    ]
    return Result(len(uses), uses)


def vague_local_names(sources: Sources) -> Result:
    """Count the vague words among the names that the most functions of the backend bind."""
    functions = Counter(use.text for source in sources.backend for use in source.bindings)
    ranked = sorted(functions, key=lambda name: (-functions[name], name))[:RANKED_NAMES]
    vague = [name for name in ranked if VAGUE_NAMES.fullmatch(name)]
    uses = [use for source in sources.backend for use in source.bindings if use.text in vague]
    return Result(len(vague), uses, ", ".join(vague))


def pronoun_test_names(sources: Sources) -> Result:
    """Count the test functions whose name begins with a pronoun after `test_`."""
    uses = [
        Use(source.path, source.text.count("\n", 0, match.start(1)) + 1, match[1])
        for source in sources.tests
        for match in TEST_DEFINITION.finditer(source.text)
        if TEST_PRONOUNS.fullmatch(match[2])
    ]
    return Result(len(uses), uses)


def vague_helper_names(sources: Sources) -> Result:
    """Count the vague names of functions, classes and constants in the helpers of the tests."""

    def vague(name: str) -> bool:
        word = name.strip("_").lower()
        if name.startswith("__") or IMPERATIVES.fullmatch(word):
            return False
        return bool(VAGUE_NAMES.fullmatch(word) or PLACES.fullmatch(word))

    uses = [
        use
        for source in sources.tests
        if source.path.startswith(HELPERS)
        for use in source.definitions
        if vague(use.text)
    ]
    return Result(len(uses), sorted(uses, key=lambda use: (use.path, use.line)))


def prose_occurrences(pattern: re.Pattern[str], sources: Iterable[Source]) -> Result:
    """Count the matches of a pattern in docstrings and comments."""
    uses = []
    for source in sources:
        texts = [(use.line, use.text) for use in source.docstrings]
        texts += [
            (source.text.count("\n", 0, comment.end()) + 1, comment[0].strip())
            for comment in COMMENT.finditer(source.text)
            if pattern.search(comment[0])
        ]
        uses += [
            Use(source.path, line + text.count("\n", 0, match.start()), match[0])
            for line, text in texts
            for match in pattern.finditer(text)
        ]
    return Result(len(uses), sorted(uses, key=lambda use: (use.path, use.line)))


def is_short(docstring: str) -> bool:
    """Return whether a docstring has so few words that it states no result."""
    return len(docstring.split()) <= SHORT_DOCSTRING_WORDS


def docstrings(sources: Iterable[Source], accepts: Callable[[str], object]) -> Result:
    """Count the docstrings of modules, classes and functions that `accepts` selects."""
    uses = [
        Use(use.path, use.line, use.text.partition("\n")[0])
        for source in sources
        for use in source.docstrings
        if accepts(use.text)
    ]
    return Result(len(uses), uses)


MEASURES = {
    "duplicate_class_names": Measure(
        duplicate_class_names,
        "public top-level class names that backend/aitne defines more than once",
        "Name the class after its subject, so that the name is unique.",
    ),
    "duplicate_class_definitions": Measure(
        duplicate_class_definitions,
        "definitions beyond the first of a public top-level class name in backend/aitne",
        "Name the class after its subject, so that the name is unique.",
    ),
    "private_words_backend": Measure(
        lambda sources: occurrences(PRIVATE_WORDS, sources.backend),
        "occurrences of nobody, somebody, whoever and everybody in backend/aitne",
        "Name the role (user, process, caller) or use the passive voice.",
    ),
    "private_words_frontend": Measure(
        lambda sources: occurrences(PRIVATE_WORDS, sources.frontend),
        "occurrences of nobody, somebody, whoever and everybody in frontend/src",
        "Name the role (user, member, administrator) or use the passive voice.",
    ),
    "private_words_tests": Measure(
        lambda sources: prose_occurrences(PRIVATE_PROSE, sources.tests),
        "occurrences of nobody, somebody, whoever and everybody in the docstrings and comments of "
        "tests, benchmarks and scripts",
        "Name the role (user, process, caller) or use the passive voice.",
    ),
    "vague_local_names": Measure(
        vague_local_names,
        f"pronouns and participles among the {RANKED_NAMES} most frequent local names",
        "Name the variable after its value (job, row, limit).",
    ),
    "vague_helper_names": Measure(
        vague_helper_names,
        "functions, classes and constants in tests/support and tests/machines that are named by a "
        "pronoun or participle",
        "Name the function after its action or its result (wait_ended, output_of).",
    ),
    "pronoun_test_names": Measure(
        pronoun_test_names,
        "test functions whose name begins with a pronoun",
        "Begin the name with its subject: test_<subject>_<behaviour>.",
    ),
    "clause_docstrings": Measure(
        lambda sources: docstrings(sources.backend, CLAUSE.match),
        "docstrings in backend/aitne that open with What, Whether, Who or another such clause",
        "Open with a verb (Return, Check, Start) or, for a class, with a noun.",
    ),
    "short_docstrings": Measure(
        lambda sources: docstrings(sources.backend, is_short),
        f"docstrings in backend/aitne of at most {SHORT_DOCSTRING_WORDS} words",
        "State the result, the meaning of None and the errors.",
    ),
    "clause_docstrings_tests": Measure(
        lambda sources: docstrings(sources.tests, CLAUSE.match),
        "docstrings in tests, benchmarks and scripts that open with What, Whether, Who or another "
        "such clause",
        "Open with a verb (Return, Check, Start) or, for a class or fixture, with a noun.",
    ),
    "short_docstrings_tests": Measure(
        lambda sources: docstrings(sources.tests, is_short),
        f"docstrings in tests, benchmarks and scripts of at most {SHORT_DOCSTRING_WORDS} words",
        "State the result, the meaning of None and the errors.",
    ),
    "see_the_port_docstrings": Measure(
        lambda sources: docstrings(sources.backend, lambda text: text.startswith(SEE_THE_PORT)),
        f"docstrings in backend/aitne that begin with '{SEE_THE_PORT}'",
        "State what this implementation does beyond the port.",
    ),
    "on_slurm": Measure(
        lambda sources: occurrences(re.compile(r"\bon_slurm\b"), sources.backend),
        "occurrences of on_slurm in backend/aitne",
        "Ask the scheduler port for the capability instead of comparing names.",
    ),
}
