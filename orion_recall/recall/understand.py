"""What a query asks for: the text to embed, the words to look up, the clock."""

from __future__ import annotations

from dataclasses import dataclass

from orion_recall.contracts import RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.recall.expand import expansions
from orion_recall.sources.source import known_names
from orion_recall.text import content_words, text_hash, words
from orion_recall.values import Question

# What lies beyond is neither embedded (256 tokens) nor worth the time; the decision records the whole length.
_SEARCHED_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """The question, and the one speaker it names, as written, when it names exactly one."""

    question: Question
    named_speaker: str | None


def understand(query: RecallQueryV1, profile: Profile, *, now: float, speakers: frozenset[str]) -> Understanding:
    """The query as the arms see it.

    A speaker's name drags a dense search to the turns that address that person, so names are taken out of the
    text that is embedded (unless nothing would be left); the keyword search keeps them.
    """
    text = query.fragment[:_SEARCHED_CHARS]
    intent = (query.intent or "")[:_SEARCHED_CHARS]
    terms = frozenset(content_words(f"{text} {intent}"))
    names = known_names(speakers)
    named = {names[_bare(word)] for word in words(text) if _bare(word) in names}
    keyword_text = " ".join(part for part in (text, intent) if part)
    if profile.enable_query_expansion:
        further = expansions(text, speakers, terms)
        keyword_text = " ".join((keyword_text, *further))
        terms = terms.union(further)
    return Understanding(
        question=Question(
            text=text,
            dense_text=_without(text, frozenset(names)) if named else text,
            keyword_text=keyword_text,
            terms=terms,
            now=now,
            text_hash=text_hash(text),
            session_id=query.session_id,
            node_id=query.node_id,
        ),
        named_speaker=next(iter(named)) if len(named) == 1 else None,
    )


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


def _without(text: str, names: frozenset[str]) -> str:
    kept = [part for part in text.split() if _bare(part.casefold().strip('.,;:!?"“”()')) not in names]
    rest = " ".join(kept)
    return rest if content_words(rest) else text
