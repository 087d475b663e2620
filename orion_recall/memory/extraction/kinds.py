"""The kind of a memory whose sender gave none: read from how its text begins and what it says, in English.

infer_kind("To restart the pump, first close valve 3, then press reset.") -> procedure, 0.9

A kind is only told where the text says it plainly. Everything else, and what is said in
talk, is an experience with the confidence 0.5.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from orion_recall.text.normal import is_question

# What a text is shows where it begins.
_MOST_CHARS = 1000

_ACT = (
    r"(?:close|open|press|turn|run|use|set|call|go|take|put|click|start|stop|check|unplug|plug|hold|add|mix|"
    r"remove|connect|disconnect|switch|wait|type|enter|push|pull|lift|shut|drain|fill|heat|select|choose)\b"
)
_START = r"(?:^|[.!?:;\n][ \t]*)(?:and |but |so |well,? |ok,? |also,? |please )?"


class KindGuess(NamedTuple):
    """A kind, and how sure it is, in [0, 1]."""

    kind: str
    confidence: float


UNSURE = KindGuess("experience", 0.5)
_BLANKS = re.compile(r"\s+")
_BE = re.compile(r"[^.?!\n]{0,120}?\b(?:is|are|was|were)\b")
# Kind, confidence, and how a text of it begins or what it says; the more special first.
_CUES: tuple[tuple[str, float, re.Pattern[str]], ...] = tuple(
    (kind, confidence, re.compile("|".join(ways)))
    for kind, confidence, *ways in (
        (
            "procedure", 0.9,
            r"^(?:how to|steps?(?: to\b[^:\n]{0,80})?:|instructions?\b[^:\n]{0,80}:|recipe\b[^:\n]{0,80}:)",
            r"(?:^|\n)[ \t]*(?:step )?1[.):][^\n]{1,300}\n[ \t]*(?:step )?2[.):]",
            r"\b1[.)] [^\n]{3,200}? 2[.)] ",
            r"^to [a-z]+\b[^.?!\n]{0,120}, (?:first |always |you (?:need to |have to |must |should )?)?" + _ACT,
            r"\bfirst,? (?:you )?[a-z]+\b[^?\n]{3,200}[,;.] (?:and )?then,? (?:you )?" + _ACT,
            r"^(?:always|never) [a-z]+\b[^.?!\n]{3,160}\b(?:before|after|when|until|unless|if)\b",
        ),
        (
            "task", 0.9,
            r"^(?:to-?do|task|reminder|action item)s?\b\s*[:\-]",
            _START + r"(?:remind (?:me|us) (?:to|about|that)|remember to|don'?t forget (?:to|that|about))\b",
        ),
        (
            "task", 0.8,
            _START + r"(?:i|we|you) (?:still |really )?(?:need to|have to|must|'?ve got to)\b[^.?!\n]{0,120}"
            r"\b(?:by|before|until|today|tonight|tomorrow|this|next|on [a-z]+day)\b",
            r"\b(?:is|are) due (?:on|by|before|next|this|tomorrow|today|at the end)\b",
        ),
        (
            "plan", 0.85,
            _START + r"(?:the|our|my) plan (?:is|for)\b",
            _START + r"(?:i|we)(?:'re| are|'m| am)? (?:plan(?:ning)? to|intend(?:ing)? to|aim(?:ing)? to)\b",
            r"^(?:plan|roadmap|strategy)\b[^:\n]{0,80}:",
        ),
        (
            "opinion", 0.85,
            _START + r"(?:in my (?:opinion|view)|if you ask me|(?:i|we) (?:personally )?(?:think|believe|feel|"
            r"reckon|doubt) (?:that |the |it |he |she |they |we |this |our )|(?:i|we) (?:much |really |strongly )?"
            r"(?:prefer|dislike|hate|loathe|can't stand|disagree)\b)",
            r"\bmy favou?rite [^.?!\n]{1,60}\bis\b",
        ),
        (
            "observation", 0.8,
            _START + r"(?:i|we) (?:have )?(?:noticed|observed)(?: that)?\b",
            r"^(?:observation|observed)\b\s*[:\-]",
            _START + r"(?:it (?:seems|appears|looks as if|looks like)) ",
        ),
        (
            "world", 0.8,
            r"^(?:the |a |an )?(?:capital|population|headquarters|manual|specification|definition|boiling point|"
            r"melting point) (?:of|says)\b[^.?!\n]{1,160}\b(?:is|are|states)\b",
            r"^[a-z][\w' -]{1,60} (?:is|are) (?:a|an) (?:kind|type|sort|species|unit|city|country|company|protocol|"
            r"language|programming language|database|library|river|mountain|mineral|metal|island)\b",
        ),
    )
)  # fmt: skip


def infer_kind(text: str, *, title: str | None = None, is_talk: bool = False) -> KindGuess:
    """The kind that the text says plainly, else experience; `is_talk`: it is a turn of a conversation."""
    if is_talk or is_question(text):
        return UNSURE
    # Runs of blanks and of line breaks would be tried at every place of a pattern.
    folded = _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", text[:_MOST_CHARS].casefold().strip())
    folded = folded.replace("’", "'")
    for kind, confidence, pattern in _CUES:
        if pattern.search(folded) is not None:
            return KindGuess(kind, confidence)
    # "Tinnelva is a river": the text begins by saying what its title is.
    name = re.sub(r"\s*\([^()]*\)$", "", (title or "").casefold()).strip().removeprefix("the ")
    folded = folded.removeprefix("the ")
    is_defined = name and folded.startswith(name) and _BE.match(folded.removeprefix(name)) is not None
    return KindGuess("world", 0.85) if is_defined else UNSURE
