"""Document of a tree: the list of files of an uploaded working tree that a job runs in.

It is JSON on one line in a canonical form (sorted keys, no spaces, ASCII), and its SHA-256 digest
is the digest of the tree::

    {"commit":null,"dirty":null,"files":[["train.py",120,"<sha256>",false]],"links":[["a","b"]],"version":1}

A file has a path, a size in bytes, the sha256 of its content and whether it is executable; a
symbolic link has a path and a target. Paths and targets obey the rules of datasets, except that
names are UTF-8. Folders have no entries.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final, NamedTuple

from aitne.core.dataset_manifest import PathOrder, check_path, check_target, make_path_sort_key
from aitne.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION: Final = 1
MOST_ENTRIES: Final = 20_000
MOST_BYTES: Final = 4 << 20
"""Maximum bytes of a document."""
_KEYS = {"commit", "dirty", "files", "links", "version"}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class TreeError(InvalidInput):
    """Error: a tree (uploaded working tree), or its document, violates a rule."""

    code = "invalid_tree"


class TreeFile(NamedTuple):
    """File of a tree: path below the tree, size in bytes, SHA-256 digest, and whether it is
    executable.
    """

    path: str
    size: int
    sha256: str
    executable: bool


class TreeLink(NamedTuple):
    """Symbolic link of a tree, with its path and its target."""

    path: str
    target: str


class JobTree(NamedTuple):
    """The files and links of a working tree, with the git commit that was checked out."""

    files: tuple[TreeFile, ...]
    links: tuple[TreeLink, ...]
    commit: str | None
    """Commit that was checked out; None if the working tree is not in git or has no commit yet."""
    dirty: bool | None
    """Whether there were uncommitted changes; None if ``commit`` is None."""

    @property
    def size_bytes(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def blobs(self) -> dict[str, int]:
        """Size in bytes of each file content, by SHA-256 digest, without duplicates."""
        return {file.sha256: file.size for file in self.files}


def compute_tree_digest(document: bytes) -> str:
    """Return the digest that identifies the tree with this document."""
    return hashlib.sha256(document).hexdigest()


def serialize_tree(tree: JobTree) -> bytes:
    """Return the document of a tree, whose entries may be in any order.

    Raises:
        TreeError: a path or a target is not permitted, or there are too many entries.
    """
    in_order = tree._replace(
        files=tuple(sorted(tree.files, key=_make_entry_sort_key)),
        links=tuple(sorted(tree.links, key=_make_entry_sort_key)),
    )
    _check_tree(in_order)
    document = _render_document(in_order)
    if len(document) > MOST_BYTES:
        raise TreeError(f"The list of the tree's files has more than {MOST_BYTES} bytes.")
    return document


def parse_tree(document: bytes) -> JobTree:
    """Return the tree that a document describes.

    Raises:
        TreeError: the text is not a document of a tree, or not in its canonical form.
    """
    if len(document) > MOST_BYTES:
        raise TreeError(f"The list of the tree's files has more than {MOST_BYTES} bytes.")
    try:
        content = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise TreeError("The list of the tree's files is not JSON.") from error
    tree = _parse_content(content)
    _check_tree(tree)
    if _render_document(tree) != document:
        raise TreeError("The list of the tree's files is not in its only permitted spelling.")
    return tree


def _parse_content(content: Any) -> JobTree:
    if not isinstance(content, dict) or content.keys() != _KEYS or content["version"] != VERSION:
        raise TreeError(f"The list of the tree's files is not of version {VERSION}.")
    commit, dirty = content["commit"], content["dirty"]
    if commit is not None and not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise TreeError("The commit of the tree is not a hash of git.")
    if (type(dirty) is bool) != (commit is not None) or not (dirty is None or type(dirty) is bool):
        raise TreeError("The tree must state for its commit, and only then, whether it is dirty.")
    files = tuple(
        TreeFile(*entry) for entry in _check_entry_types(content["files"], (str, int, str, bool))
    )
    links = tuple(TreeLink(*entry) for entry in _check_entry_types(content["links"], (str, str)))
    return JobTree(files, links, commit, dirty)


def _check_entry_types(entries: Any, types: tuple[type, ...]) -> list[list[Any]]:
    if not isinstance(entries, list):
        raise TreeError("The entries of the tree are not a list.")
    for number, entry in enumerate(entries):
        # A bool is an int for isinstance.
        if not isinstance(entry, list) or tuple(map(type, entry)) != types:
            raise TreeError(f"Entry {number} of the tree has other fields than such an entry has.")
    return entries


def _check_tree(tree: JobTree) -> None:
    entries = len(tree.files) + len(tree.links)
    if entries > MOST_ENTRIES:
        raise TreeError(
            f"The tree has {entries} files and links; at most {MOST_ENTRIES} are permitted. List "
            "what the job does not need in .aitneignore."
        )
    sizes: dict[str, int] = {}
    for file in tree.files:
        if file.size < 0 or not _SHA256.fullmatch(file.sha256):
            raise TreeError(f"The size or the sha256 of {file.path!r} is invalid.")
        if sizes.setdefault(file.sha256, file.size) != file.size:
            raise TreeError(f"{file.path!r} has the sha256 of a file of another size.")
    targets = {link.path: link.target for link in tree.links}
    files, links = ([entry.path for entry in part] for part in (tree.files, tree.links))
    _check_order(files, {})
    _check_order(links, {})
    _check_order(sorted([*files, *links], key=_make_sort_key), targets)


def _check_order(paths: list[str], targets: dict[str, str]) -> None:
    ordered = PathOrder()
    for path in paths:
        try:
            raw = path.encode()
            check_path(raw)
            ordered.check(raw)
            if path in targets:
                check_target(raw, targets[path].encode())
        except UnicodeEncodeError as error:
            raise TreeError(f"{path!r} in the tree: the name is not UTF-8.") from error
        except ValueError as error:
            raise TreeError(f"{path!r} in the tree {error}.") from error


def _make_entry_sort_key(entry: TreeFile | TreeLink) -> bytes:
    return _make_sort_key(entry.path)


def _make_sort_key(path: str) -> bytes:
    # Names that are no UTF-8 are refused later.
    return make_path_sort_key(path.encode("utf-8", "surrogatepass"))


def _render_document(tree: JobTree) -> bytes:
    content = {**tree._asdict(), "version": VERSION}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
