"""Options of sbatch among words: of a directive, of a command line, and of environment variables.

They are read as ``getopt_long`` reads them: options end with the first word that is none, long
options may be cut short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from aitne.core.jobs.sbatch_option_names import ALIASES, NO_VALUE, OPTIONAL_VALUE, SHORT

COMMAND_LINE = 0
"""Line number of an option that is not in the script."""


class SbatchOption(NamedTuple):
    """Option of a batch script, of sbatch's command line or of its environment."""

    line: int
    """Line number in the script, from 1; ``COMMAND_LINE``: the option is not in the script."""
    name: str
    value: str | None
    """Value of the option; None: written without a value."""
    variable: str | None = None
    """Environment variable that sets the option; None: no variable does."""


def refuse_option(option: SbatchOption, message: str) -> NoReturn:
    """Raise ``ValueError`` about an option with which sbatch submits no job."""
    name = option.name if option.name.startswith(("-", "#")) else f"--{option.name}"
    place = f"line {option.line}" if option.line != COMMAND_LINE else "command line"
    raise ValueError(f"{option.variable or place}: {name[:200]} {message[:1_000]}")


def split_directive(line: int, text: str) -> Iterator[str]:
    """Yield the arguments of a directive: text in quotes is one argument, ``#`` starts a comment.

    Raises ``ValueError`` for a quotation mark without its counterpart.
    """
    word: list[str] | None = None
    quote = ""
    escaped = False
    for char in text:
        if escaped:
            word = word or []
            word.append(char)
            escaped = False
        elif quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"':
                escaped = True
            else:
                word = word or []
                word.append(char)
        elif char == "\\":
            escaped = True
        elif char in "'\"":
            quote, word = char, word or []
        elif char == "#":
            break
        elif char.isspace():
            if word is not None:
                yield "".join(word)
            word = None
        else:
            word = word or []
            word.append(char)
    if quote:
        refuse_option(
            SbatchOption(line, "#SBATCH", None), f"has no second {quote}, so sbatch refuses it"
        )
    if word is not None:
        yield "".join(word)


def parse_options(line: int, words: deque[str], known: frozenset[str]) -> Iterator[SbatchOption]:
    """Yield the options at the beginning of ``words``, which are removed from it; the first word
    that is no option ends them. ``known`` are the names of all options.

    Raises ``ValueError`` for an option that sbatch refuses.
    """
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.popleft()
        if word == "--":
            return
        if word.startswith("--"):
            yield _parse_long_option(line, word[2:], words, known)
        else:
            yield from _parse_short_options(line, word, words)


def make_option_from_variable(line: int, name: str, value: str, variable: str) -> SbatchOption:
    """Return the option ``name`` that an environment variable sets to ``value``."""
    without = name in NO_VALUE or (name in OPTIONAL_VALUE and not value)
    return SbatchOption(line, name, None if without else value, variable)


def _parse_long_option(
    line: int, word: str, words: deque[str], known: frozenset[str]
) -> SbatchOption:
    written, equals, value = word.partition("=")
    option = SbatchOption(line, f"--{written}", None)
    meant = [written] if written in known else [name for name in known if name.startswith(written)]
    names = {ALIASES.get(name, name) for name in meant}
    if not names or not written:
        refuse_option(
            option, "is not an option of sbatch, which refuses it unless a plug-in adds it"
        )
    if len(names) > 1:
        refuse_option(option, f"is ambiguous for sbatch: {', '.join(sorted(names)[:5])}")
    name = names.pop()
    if equals and name in NO_VALUE:
        refuse_option(option, "takes no value, so sbatch refuses it")
    if not equals and name not in OPTIONAL_VALUE | NO_VALUE:
        if not words:
            refuse_option(option, "has no value, so sbatch refuses it")
        value, equals = words.popleft(), "="
    return SbatchOption(line, name, value if equals else None)


def _parse_short_options(line: int, word: str, words: deque[str]) -> Iterator[SbatchOption]:
    letter, rest = word[1], word[2:]
    written = SbatchOption(line, f"-{letter}", None)
    name = SHORT.get(letter)
    if name is None:
        refuse_option(written, "is not an option of sbatch, which refuses it")
    if name in NO_VALUE:
        yield SbatchOption(line, name, None)
        if rest:
            words.appendleft(f"-{rest}")
    elif name in OPTIONAL_VALUE:
        yield SbatchOption(line, name, rest or None)
    else:
        value = rest or (words.popleft() if words else "")
        if not value:
            refuse_option(written, "has no value, so sbatch refuses it")
        yield SbatchOption(line, name, value)
