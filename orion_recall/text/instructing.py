"""Instructions to the reader: whether a text tells the language model that reads it what to do.

Rules for the usual forms ("ignore all previous instructions"). One in other words is not seen, and a text that only
quotes one is.
"""

from __future__ import annotations

import re
from typing import Final

from orion_recall.text.inert import folded
from orion_recall.text.normal import one_line

_READ_CHARS: Final = 20_000
_THEIRS: Final = r"(?:all|any|your|previous|prior|above|earlier|preceding|system|these|those|former|original)"
_ORDERS: Final = r"(?:instructions?|prompts?|rules|guidelines|directives?|directions|constraints|messages?|context)"
_INSTRUCTS: Final = re.compile(
    rf"""\b(?:
        (?:ignore|disregard|forget|override|bypass|drop)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,3}}{_THEIRS}\W{{1,3}}
            (?:\w{{1,15}}\W{{1,3}}){{0,3}}{_ORDERS}
      | (?:ignore|disregard|forget)\W{{1,3}}(?:everything|anything|all)\W{{1,3}}(?:above|before|you\ were\ told)
      | you\ are\ (?:now|no\ longer)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}
            (?:assistant|ai|model|bot|chatbot|dan|unrestricted|jailbroken|developer\ mode)
      | (?:from\ now\ on|henceforth)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,3}}(?:ai|assistant|model|bot)\b
      | (?:do\ not|don['’]t|never)\ (?:tell|inform|warn|mention|reveal|show)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}
            the\ (?:user|human|operator)
      | (?:reveal|print|repeat|output|leak|send|show|disclose)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}
            (?:(?:system|hidden|initial|secret)\ (?:prompt|instructions)|your\ (?:instructions|prompt|rules))
      | (?:new|updated|real|actual|override)\ (?:system\ )?(?:instructions?|prompt)\s{{0,2}}[:∶]
      | ignorier\w{{0,3}}\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}(?:anweisung|instruktion|regel|vorgabe)
      | ignore[zr]?\ (?:toutes?\ )?(?:les|tes|vos)\ (?:instructions|consignes|règles)
      | ignor[ae]\ (?:todas?\ )?(?:las|tus|sus)\ (?:instrucciones|reglas|indicaciones)
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def instructs_reader(text: str) -> bool:
    """Whether the text has an instruction to whoever reads it as a prompt."""
    return _INSTRUCTS.search(folded(one_line(text[:_READ_CHARS]))) is not None
