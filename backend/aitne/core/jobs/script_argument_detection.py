"""Detection of scripts that read arguments, such as ``$1`` in a shell."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from aitne.core.jobs.command_arguments import parse_interpreter

_SHELLS = {"sh", "bash", "dash", "ksh", "zsh"}
_POSITIONAL = re.compile(r"\$(?:[1-9@*#]|\{#?(?:[1-9@*]|[#]))")
_OTHERS = re.compile(r"\bsys\.argv\b|@ARGV\b|\$ARGV\[|\$(?:argv\b|[1-9*])|\bcommandArgs\b")
_HEREDOC = re.compile(r"<<-?[ \t]*(?:(['\"])(.{1,200}?)\1|(\\?)([^\s'\"|&;<>()]{1,200}))")
_FUNCTION = re.compile(
    r"(?:function[ \t]+[^\s(){}]+[ \t]*(?:\([ \t]*\))?|[A-Za-z_][\w.:-]*[ \t]*\([ \t]*\))\s*\{"
)
_SET = re.compile(r"set[ \t]+--(?:\s|$)")


def uses_arguments(command: str) -> bool:
    """Return whether the text of a command or script reads the arguments that it was called with.

    In a shell that are positional parameters outside functions and quotation; a script that sets
    them itself (``set -- ...``) reads none.
    """
    program = parse_interpreter(command)
    words = [] if program is None else " ".join(program).split()
    names = {PurePosixPath(word).name for word in words if not word.startswith("-")}
    if program is not None and not names & _SHELLS:
        return _OTHERS.search(command.partition("\n")[2]) is not None
    return _Shell(command).reads_positional()


class _Shell:
    """Scan of a shell script from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._quoted = False
        """Whether the position is in double quotes."""
        self._depth = 0
        """Number of open braces since the beginning of a function; 0: outside functions."""
        self._heredocs: list[tuple[str, bool]] = []
        """Ends of the here documents that follow the line, and whether they are expanded."""

    def reads_positional(self) -> bool:
        """Return whether the script reads positional parameters."""
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char == "\\":
                self._at += 2
            elif char == "$" and not text.startswith("$'", self._at):
                if not self._depth and _POSITIONAL.match(text, self._at):
                    return True
                self._at += 2 if text.startswith("${", self._at) else 1
            elif char == '"':
                self._quoted = not self._quoted
                self._at += 1
            elif self._quoted:
                self._at += 1
            elif char == "\n" and self._heredocs:
                if self._skip_heredocs():
                    return True
            elif not self._skip_word(char):
                return False
        return False

    def _skip_word(self, char: str) -> bool:
        """Go on by a quotation, comment, function or character outside double quotes; return False
        if the script sets its positional parameters there.
        """
        text, at = self._text, self._at
        begins = at == 0 or text[at - 1] in " \t\n;&|("
        self._at += 1
        if char == "'":
            end = text.find("'", self._at)
            self._at = len(text) if end < 0 else end + 1
        elif char == "#" and begins:
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif char == "<" and text.startswith("<<<", at):
            self._at = at + 3
        elif char == "<" and (match := _HEREDOC.match(text, at)):
            self._heredocs.append((match[2] or match[4], not (match[1] or match[3])))
            self._at = match.end()
        elif self._depth:
            alone = begins or text[at - 1] in ")}"
            opens = char == "{" and text[at + 1 : at + 2].isspace()
            self._depth += alone and opens
            self._depth -= alone and char == "}"
        elif begins and (char.isalpha() or char == "_"):
            if _SET.match(text, at):
                return False
            if match := _FUNCTION.match(text, at):
                self._depth = 1
                self._at = match.end()
        return True

    def _skip_heredocs(self) -> bool:
        """Go to the end of the here documents; return whether one of them reads positional
        parameters.
        """
        self._at += 1
        for end, expanded in self._heredocs:
            while self._at < len(self._text):
                stop = self._text.find("\n", self._at)
                line = self._text[self._at : stop if stop >= 0 else None]
                self._at += len(line) + 1
                if line.strip() == end:
                    break
                plain = re.sub(r"\\.", "", line)
                if expanded and not self._depth and _POSITIONAL.search(plain):
                    return True
        self._heredocs.clear()
        return False
