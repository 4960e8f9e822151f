from __future__ import annotations

from tests.support.stages import blank, catalogue, people_database, peopled, stage, tokens

__all__ = ["blank", "catalogue", "people_database", "peopled", "stage", "tokens"]
