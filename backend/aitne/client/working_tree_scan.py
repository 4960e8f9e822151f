"""Selection of the files of a working tree that are uploaded for a job: those that git would
commit, or all files of a folder, without those that ``.aitneignore`` lists."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess

from aitne.client.dataset_folder_scan import TreeProblem, make_stamp, make_unreadable_problem
from aitne.client.file_hashing import HashedFile, HashTask, hash_files
from aitne.core.byte_size_format import describe_bytes
from aitne.core.dataset_manifest import check_path, check_target, escape_path
from aitne.core.errors import InvalidInput
from aitne.core.tree_document import JobTree, TreeFile, TreeLink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from aitne.client.dataset_folder_scan import Stamp

IGNORE_FILE = ".aitneignore"
GIT_S = 60.0
MOST_SHOWN = 5
"""Maximum number of files that an error message names."""
_GIT_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Environment variables that git sets in hooks. They are removed, because they would select another
repository."""


class WorkingTree:
    """Folder that was read for an upload: its list of files and links, and a file for each
    checksum. Files in memory may be part of it."""

    def __init__(
        self, root: bytes, tree: JobTree, contents: Mapping[str, bytes] | None = None
    ) -> None:
        """Set the folder and its files. ``contents`` are files in memory by their path, which take
        the places of files of the folder."""
        added = {path: hashlib.sha256(data).hexdigest() for path, data in (contents or {}).items()}
        files = [file for file in tree.files if file.path not in added]
        for path, data in (contents or {}).items():
            files.append(TreeFile(path, len(data), added[path], executable=False))
        self.root = root
        self.tree = tree._replace(files=tuple(files))
        self.files = {file.sha256: file for file in files}
        self._contents = {added[path]: data for path, data in (contents or {}).items()}

    def read_content(self, sha256: str) -> bytes:
        """Return the content with this checksum. Raises ``InvalidInput`` if its file was changed
        since."""
        if sha256 in self._contents:
            return self._contents[sha256]
        file = self.files[sha256]
        try:
            path = os.path.join(self.root, file.path.encode())
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as content:
                data = content.read(file.size + 1)
        except OSError as error:
            raise InvalidInput(f"{file.path} cannot be read: {error.strerror or error}.") from error
        if len(data) != file.size:
            raise InvalidInput(f"{file.path} was changed meanwhile. Run the command again.")
        return data


def read_working_tree(
    folder: str | os.PathLike[str],
    *,
    max_files: int,
    max_bytes: int,
    heard: Callable[[int], None] | None = None,
) -> WorkingTree:
    """Read and hash the files of a folder that are uploaded for a job.

    ``heard`` is a progress callback, called with the number of bytes read so far.

    Raises:
        InvalidInput: the folder or a file cannot be read, git fails, or a limit is exceeded.
    """
    root = _resolve_root(os.fspath(folder))
    ignored = _make_ignore_filter(root)
    by_git = _is_in_working_tree(root)
    names = _git_files(root) if by_git else _list_files(root, ignored)
    problems: list[TreeProblem] = []
    links: list[TreeLink] = []
    files: dict[bytes, tuple[Stamp, bool]] = {}
    for name in dict.fromkeys(names):
        if not ignored(name):
            _add_entry(root, name, files, links, problems)
        if len(files) + len(links) > max_files:
            raise InvalidInput(
                f"{os.fsdecode(root)} has more than {max_files} files, the limit of the platform. "
                f"List what the job does not need in {IGNORE_FILE}, such as data and environments."
            )
    _raise_if_any(problems)
    _check_total_size(files, max_bytes)
    tasks = [HashTask(name, state[0], state) for name, (state, _) in files.items()]
    entries: list[TreeFile] = []
    for batch in hash_files(root, tasks, heard=heard):
        for outcome in batch:
            if isinstance(outcome, HashedFile):
                size, executable = outcome.stamp[0], files[outcome.path][1]
                sha256 = outcome.sha256 or ""
                entries.append(TreeFile(outcome.path.decode(), size, sha256, executable))
            else:
                problems.append(outcome)
    _raise_if_any(problems)
    commit = _read_head_commit(root) if by_git else None
    dirty = (
        None if commit is None else bool(_run_git(root, "status", "--porcelain", "-z", "--", "."))
    )
    return WorkingTree(root, JobTree(tuple(entries), tuple(links), commit, dirty))


def _resolve_root(folder: str) -> bytes:
    root = os.path.realpath(os.fsencode(folder))
    if not os.path.isdir(root):
        raise InvalidInput(f"{folder} is not a folder. Name the folder with the job's files.")
    return root


def _add_entry(
    root: bytes,
    name: bytes,
    files: dict[bytes, tuple[Stamp, bool]],
    links: list[TreeLink],
    problems: list[TreeProblem],
) -> None:
    """Add an entry of the folder to ``files`` or ``links``, or to ``problems`` if it cannot be
    uploaded."""
    path = os.path.join(root, name)
    try:
        status = os.lstat(path)
        check_path(name)
        text = name.decode()
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(path)
            check_target(name, target)
            links.append(TreeLink(text, target.decode()))
        elif stat.S_ISREG(status.st_mode):
            files[name] = (make_stamp(status), bool(status.st_mode & stat.S_IXUSR))
        else:
            raise ValueError("is neither a file, a folder nor a symbolic link")
    except FileNotFoundError:
        return  # git knows it, and it was deleted
    except UnicodeDecodeError:
        problems.append(TreeProblem(name, "refused", "has a name or target that is not UTF-8"))
    except OSError as error:
        problems.append(make_unreadable_problem(name, error))
    except ValueError as error:
        problems.append(TreeProblem(name, "refused", str(error)))


def _raise_if_any(problems: list[TreeProblem]) -> None:
    """Raise an ``InvalidInput`` that names the first problems, if there are any."""
    if not problems:
        return
    shown = [f"{escape_path(problem.path)} {problem.reason}" for problem in problems[:MOST_SHOWN]]
    if len(problems) > MOST_SHOWN:
        shown.append(f"and {len(problems) - MOST_SHOWN} more")
    raise InvalidInput(
        f"The folder cannot travel with the job: {'; '.join(shown)}. Correct this, or list the "
        f"paths in {IGNORE_FILE}."
    )


def _check_total_size(files: dict[bytes, tuple[Stamp, bool]], max_bytes: int) -> None:
    sizes = {name: state[0] for name, (state, _) in files.items()}
    total = sum(sizes.values())
    if total > max_bytes:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:MOST_SHOWN]
        shown = ", ".join(
            f"{escape_path(name)} ({describe_bytes(sizes[name])})" for name in largest
        )
        raise InvalidInput(
            f"The folder has {describe_bytes(total, 'up')}, and the limit of the platform is "
            f"{describe_bytes(max_bytes, 'down')}. The largest files are {shown}. List what the job does "
            f"not need in {IGNORE_FILE}, and put data into a dataset."
        )


# --- the names of the files --------------------------------------------------------------------------


def _make_ignore_filter(root: bytes) -> Callable[[bytes], bool]:
    """Return a function that tells whether the folder's ``.aitneignore`` lists a path."""
    path = os.path.join(root, IGNORE_FILE.encode())
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return lambda _: False
    except OSError as error:
        raise InvalidInput(f"{IGNORE_FILE} cannot be read: {error.strerror}.") from error
    import pathspec

    try:
        patterns = pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise InvalidInput(f"{IGNORE_FILE} is not in the syntax of .gitignore: {error}.") from error
    return lambda name: patterns.match_file(os.fsdecode(name))


def _list_files(root: bytes, ignored: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yield the paths of all files and links below ``root``, without ignored folders and
    ``.git``."""
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if not entry.is_dir(follow_symlinks=False):
                        yield path
                    elif entry.name != b".git" and not ignored(path + b"/"):
                        folders.append(path)
        except OSError as error:
            _raise_if_any([make_unreadable_problem(folder or b".", error)])


def _git_files(root: bytes) -> Iterator[bytes]:
    """Yield the paths of all files that git tracks or would add, including those in submodules and
    nested repositories."""
    listed = _run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split(b"\0")):
        path = os.path.join(root, name.rstrip(b"/"))
        if not os.path.isdir(path) or os.path.islink(path):
            yield name
        elif os.path.exists(os.path.join(path, b".git")):
            yield from _join_all(name.rstrip(b"/"), _git_files(path))


def _join_all(folder: bytes, names: Iterable[bytes]) -> Iterator[bytes]:
    for name in names:
        yield os.path.join(folder, name)


def _is_in_working_tree(root: bytes) -> bool:
    folder = root
    while not os.path.exists(os.path.join(folder, b".git")):
        if (above := os.path.dirname(folder)) == folder:
            return False
        folder = above
    return True


def _read_head_commit(root: bytes) -> str | None:
    output = _run_git(root, "rev-parse", "--verify", "--quiet", "HEAD", required=False)
    return output.decode().strip() or None


def _run_git(root: bytes, *question: str, required: bool = True) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    argv = ["git", "-C", os.fsdecode(root), "-c", "core.fsmonitor=false", *question]
    try:
        answer = subprocess.run(
            argv,
            env={**environment, **_GIT_ENV},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise InvalidInput(
            f"{os.fsdecode(root)} is a working tree of git, and git is not installed: without it "
            "the files that .gitignore lists are not known. Install git."
        ) from None
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"git did not answer for {GIT_S:.0f} s: `{' '.join(argv)}`.") from None
    if answer.returncode != 0 and required:
        words = answer.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise InvalidInput(f"git cannot list the files of {os.fsdecode(root)}: {words}.")
    return answer.stdout
