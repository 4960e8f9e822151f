"""Problems with the fields of a request, which its user sees together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aitne.core.errors import FieldProblem, InvalidInput


@dataclass(slots=True)
class Problems:
    """Problems with the fields of a request, collected so that the user sees all of them at
    once.
    """

    found: list[FieldProblem] = field(default_factory=list)

    def add(self, name: str, message: str, value: object, allowed: str | None) -> None:
        """Add a problem with the field ``name``; ``allowed`` describes the permitted values, if
        they are known.
        """
        shown = None if value is None else str(value)
        self.found.append(FieldProblem(name, message, shown, allowed))

    def extend(self, problems: Iterable[FieldProblem]) -> None:
        """Add several problems; a field keeps the first one."""
        known_fields = {problem.field for problem in self.found}
        self.found.extend(problem for problem in problems if problem.field not in known_fields)

    def raise_if_any(self) -> None:
        """Raise ``InvalidInput`` with all problems that were added; return if there are none."""
        if self.found:
            raise InvalidInput(
                "; ".join(f"{problem.field}: {problem.message}" for problem in self.found),
                self.found,
            )
