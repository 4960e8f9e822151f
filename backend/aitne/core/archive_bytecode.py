"""Bytecode of modules that travel in archives: each job imports them, and compiling takes longer."""

from __future__ import annotations

import marshal
from importlib.util import MAGIC_NUMBER, source_hash

_UNCHECKED = (1).to_bytes(4, "little")


def compile_bytecode(name: str, source: bytes) -> bytes:
    """Return the bytecode of a module as a file that is used without a look at its source (PEP
    552). ``name`` is the file in tracebacks. Other versions of Python than this one do not use it.
    """
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    return MAGIC_NUMBER + _UNCHECKED + source_hash(source) + code
