"""Reader of plain YAML with the standard library only, for nodes that have no other parser.

It reads mappings, lists and single-line scalars in block and flow style, which includes JSON. What
else YAML has (anchors, tags, scalars of several lines, several documents) is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from aitne_train.topology.errors import TopologyError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

MAX_DEPTH = 10
"""Maximum depth of lists and mappings inside each other."""
_REMEDY = "Write it as in Slurm's manual page topology.yaml."
_QUOTED = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"\\]|\\["\\/])*)\"""")
_PLAIN_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)\s*:(?=\s|$)", re.ASCII)
_QUOTED_KEY = re.compile(rf"(?:{_QUOTED.pattern})\s*:(?=\s|$)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_END_IN_FLOW = re.compile(r"[,\[\]{}]|:(?=[\s,\[\]{}]|$)|\s#")
_NO_START = re.compile(r"[&*!|>%@`,\[\]{}#?]|[-:](?=\s|$)")
_SPECIAL = {
    "&": "an anchor",
    "*": "an alias",
    "!": "a tag",
    "|": "a text of several lines",
    ">": "a text of several lines",
}


@dataclass(frozen=True)
class YamlNode:
    """A value in a YAML file."""

    value: str | Sequence[YamlNode] | Mapping[str, YamlNode]
    """Text of a scalar, empty for none; or a list; or a mapping."""
    line: int
    """Number of the line in which it begins, from 1."""


def parse_yaml(text: str, file: str) -> YamlNode:
    """Return the document in a text.

    Args:
        text: the YAML.
        file: name of the file, for error messages.

    Raises:
        TopologyError: the text is not valid, or more than plain YAML; names the line.
    """
    return _Reader(text, file).read_document()


class _Reader:
    """Position in the lines of a document: ``_at`` is the current line, ``_column`` the current
    character in it, within values in flow style.
    """

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._lines: list[tuple[int, int, str]] = []
        """Number, indentation and content of each line that has content."""
        self._at = self._column = 0
        ended = False
        for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
            content = line.strip()
            if not content or content.startswith("#"):
                continue
            if ended or (line.startswith("---") and self._lines):
                raise self._make_error("it has several documents", number)
            if line.startswith("..."):
                ended = True
            elif line.startswith("---"):
                if _COMMENT.sub("", content) != "---":
                    raise self._make_error(f"{content[:60]!r} cannot be read", number)
            else:
                indent = len(line) - len(line.lstrip(" "))
                if line[indent] == "\t":
                    raise self._make_error("a tab is in the indentation", number, "Use spaces.")
                self._lines.append((number, indent, content))

    def read_document(self) -> YamlNode:
        if not self._lines:
            return YamlNode("", 1)
        node = self._read_block(0)
        if self._at < len(self._lines):
            raise self._misplaced_error()
        return node

    # Block style

    def _read_block(self, depth: int) -> YamlNode:
        """Read the list, mapping or value that begins at the current line."""
        number, indent, content = self._lines[self._at]
        self._check_depth(depth, number)
        if _is_item(content):
            return self._read_list(indent, depth)
        if _split_key(content) is not None:
            return self._read_mapping(indent, depth)
        return self._read_value(content, depth)

    def _read_list(self, indent: int, depth: int) -> YamlNode:
        first = self._lines[self._at][0]
        items = []
        while self._continues_block(indent) and _is_item(self._lines[self._at][2]):
            number, _, content = self._lines[self._at]
            rest = content[1:].lstrip(" ")
            if not _COMMENT.sub("", rest).strip():
                self._at += 1
                items.append(self._read_below(indent, number, depth))
            else:
                # The item is a block of its own, which begins in this line.
                self._lines[self._at] = (number, indent + len(content) - len(rest), rest)
                items.append(self._read_block(depth + 1))
        return YamlNode(tuple(items), first)

    def _read_mapping(self, indent: int, depth: int) -> YamlNode:
        first = self._lines[self._at][0]
        values: dict[str, YamlNode] = {}
        while self._continues_block(indent):
            number, _, content = self._lines[self._at]
            found = _split_key(content)
            if found is None:
                break
            key, rest = found
            if key in values:
                raise self._duplicate_key_error(key, number)
            if _COMMENT.sub("", rest).strip():
                values[key] = self._read_value(rest.strip(), depth + 1)
                continue
            self._at += 1
            if self._at < len(self._lines):
                _, below, content = self._lines[self._at]
                if below == indent and _is_item(content):
                    self._check_depth(depth + 1, number)
                    values[key] = self._read_list(indent, depth + 1)
                    continue
            values[key] = self._read_below(indent, number, depth)
        return YamlNode(values, first)

    def _read_below(self, indent: int, number: int, depth: int) -> YamlNode:
        """Read the value in the following lines; an empty scalar if they are not indented more than
        ``indent``.
        """
        if self._at < len(self._lines) and self._lines[self._at][1] > indent:
            return self._read_block(depth + 1)
        return YamlNode("", number)

    def _continues_block(self, indent: int) -> bool:
        """Return whether the current line belongs to the collection with this indentation."""
        if self._at == len(self._lines) or self._lines[self._at][1] < indent:
            return False
        if self._lines[self._at][1] > indent:
            raise self._misplaced_error()
        return True

    def _read_value(self, content: str, depth: int) -> YamlNode:
        """Read ``content``, the last part of the current line: a scalar, or the begin of a value in
        flow style.
        """
        number, _, line = self._lines[self._at]
        self._column = len(line) - len(content)
        if content[0] in "[{":
            node = self._read_flow(depth)
        elif content[0] in "'\"":
            node = YamlNode(self._read_quoted(), number)
        else:
            plain = _COMMENT.sub("", content).strip()
            self._check_plain(plain, number)
            node, self._column = YamlNode(plain, number), len(line)
        rest = self._lines[self._at][2][self._column :]
        if _COMMENT.sub("", rest).strip():
            raise self._misplaced_error(rest)
        self._at += 1
        return node

    # Flow style

    def _read_flow(self, depth: int) -> YamlNode:
        """Read the value at the current character."""
        number = self._lines[self._at][0]
        begin = self._skip_blanks()
        if begin in "[{":
            self._check_depth(depth, number)
            self._column += 1
            return self._read_flow_list(depth) if begin == "[" else self._read_flow_mapping(depth)
        return YamlNode(self._read_scalar(), number)

    def _read_flow_list(self, depth: int) -> YamlNode:
        number = self._lines[self._at][0]
        items = []
        while self._skip_blanks() != "]":
            items.append(self._read_flow(depth + 1))
            self._skip_separator("]")
        self._column += 1
        return YamlNode(tuple(items), number)

    def _read_flow_mapping(self, depth: int) -> YamlNode:
        number = self._lines[self._at][0]
        values: dict[str, YamlNode] = {}
        while self._skip_blanks() != "}":
            line, key = self._lines[self._at][0], self._read_scalar()
            if key in values:
                raise self._duplicate_key_error(key, line)
            if self._skip_blanks() != ":":
                raise self._misplaced_error(self._read_rest())
            self._column += 1
            self._skip_blanks()
            values[key] = self._read_flow(depth + 1)
            self._skip_separator("}")
        self._column += 1
        return YamlNode(values, number)

    def _skip_separator(self, end: str) -> None:
        """Move past the comma after a value; before ``end`` there need not be one."""
        found = self._skip_blanks()
        if found == ",":
            self._column += 1
        elif found != end:
            raise self._misplaced_error(self._read_rest())

    def _skip_blanks(self) -> str:
        """Move to the next character that is not a blank or in a comment, and return it."""
        while True:
            content = self._lines[self._at][2]
            rest = content[self._column :].lstrip()
            self._column = len(content) - len(rest)
            if rest and not (rest[0] == "#" and content[self._column - 1] in " \t"):
                return rest[0]
            if self._at + 1 == len(self._lines):
                raise self._make_error("a bracket is not closed", self._lines[self._at][0])
            self._at, self._column = self._at + 1, 0

    def _read_scalar(self) -> str:
        number, _, content = self._lines[self._at]
        if content[self._column] in "'\"":
            return self._read_quoted()
        rest = self._read_rest()
        end = _END_IN_FLOW.search(rest)
        text = (rest if end is None else rest[: end.start()]).strip()
        self._check_plain(text or rest, number)
        self._column += len(rest) if end is None else end.start()
        return text

    def _read_quoted(self) -> str:
        number, _, content = self._lines[self._at]
        match = _QUOTED.match(content, self._column)
        if match is None:
            raise self._make_error(f"{content[:60]!r} has a wrong quotation mark", number)
        self._column = match.end()
        single, double = match.groups()
        return re.sub(r"\\(.)", r"\1", double) if single is None else single.replace("''", "'")

    def _read_rest(self) -> str:
        return self._lines[self._at][2][self._column :]

    # Errors

    def _check_plain(self, text: str, number: int) -> None:
        """Raise ``TopologyError`` if a scalar without quotation marks is something else in YAML."""
        if text[0] in _SPECIAL:
            raise self._make_error(f"it has {_SPECIAL[text[0]]}", number)
        if _NO_START.match(text) or re.search(r":\s|:$|\t", text):
            raise self._misplaced_error(text)

    def _check_depth(self, depth: int, number: int) -> None:
        if depth >= MAX_DEPTH:
            raise self._make_error("it is nested too deeply", number)

    def _duplicate_key_error(self, key: str, number: int) -> TopologyError:
        return self._make_error(f"the key {key} is given twice", number, "Give each key once.")

    def _misplaced_error(self, text: str | None = None) -> TopologyError:
        number, _, content = self._lines[self._at]
        shown = content if text is None else text
        return self._make_error(
            f"it is not valid YAML: {shown[:60]!r} is not expected here", number
        )

    def _make_error(self, problem: str, number: int, remedy: str = _REMEDY) -> TopologyError:
        return TopologyError(problem, remedy, file=self._file, line=number)


def _is_item(content: str) -> bool:
    return content == "-" or content.startswith("- ")


def _split_key(content: str) -> tuple[str, str] | None:
    """Return the key with which a line begins, and the text after its colon; None if it begins with
    none.
    """
    match = _PLAIN_KEY.match(content)
    if match is not None:
        return match.group(1), content[match.end() :]
    match = _QUOTED_KEY.match(content)
    if match is None:
        return None
    single, double = match.groups()
    key = re.sub(r"\\(.)", r"\1", double) if single is None else single.replace("''", "'")
    return key, content[match.end() :]
