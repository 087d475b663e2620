"""The filter for what somebody said: that person's turns, and texts of others that report what was said.

If they said nothing about what the question names, or nothing then, nothing is left: what others say is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from orion_recall.models.language import Language, language_of
from orion_recall.recall.confidence.answer import Withheld
from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.understand.people import named_speakers
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.scoring.candidates import Candidate
from orion_recall.text.normal import content_words, without_possessive, words
from orion_recall.text.reported import mentions, reports
from orion_recall.values import MemoryView

# Words are compared by so many of their first characters: "repairing" finds "repaired".
_STEM = 5
# Cosines of a topic and a text that is about it; for the turn beside it, which may say it in its place.
_ABOUT, _BESIDE_ABOUT = 0.3, 0.4
# What the cosine and late interaction give together: a topic of a word or two has one word in a text that is near
# ("a pet", "a tortoise") where the text as a whole is not.
_BOTH_ABOUT = 0.7
_READ_CHARS = 4_000

Kept = Sequence[tuple[Candidate, MemoryView]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidByFilter:
    """Keeps what the person said; `memories` are those read for this recall and `similarities` cosines, by key.

    `closeness` is the late interaction of topic and memory, by key, where there is one. `language` is the
    question's; without it texts in other languages are read like all others.
    """

    said: SaidBy
    memories: Mapping[int, MemoryView]
    similarities: Mapping[int, float]
    closeness: Mapping[int, float] = field(default_factory=dict[int, float])
    language: Language | None = None

    def kept(self, candidates: Kept, dropped: Dropped) -> list[tuple[Candidate, MemoryView]]:
        """The candidates that this person said, or that report it, of the time and topic asked about.

        All of them where a role or document is named ("the plumber", "the policy") that some of them mention: its
        speaker is unknown.
        """
        said, speakers = self.said, self._speakers(candidates)
        own = [one for one in candidates if self._is_in_time(one[1]) and self._is_said(one[1], speakers)]
        if not own and not speakers:
            named = [one for one in candidates if mentions(_with_title(one[1]), said.names)]
            if said.by_role and named:
                return list(candidates)
            own = [one for one in named if self._is_in_time(one[1]) and said.topic and self._has_word(one[1])]
        # Of a time that is named, what the person said then is handed over: the topic may be told in other words.
        if said.topic and not said.intervals and own and not any(self._is_about(*one) for one in own):
            own = []
        keys = {candidate.key for candidate, _ in own}
        for candidate, _ in candidates:
            if candidate.key not in keys:
                dropped.note("not_said_by", candidate.key)
        return own

    def _speakers(self, candidates: Kept) -> Set[str]:
        """The speakers who are meant: those that the index knows, and of its name among the candidates.

        Only the own index has a list of speakers; who speaks in an external store stands in its memories alone.
        """
        present = frozenset(memory.speaker for _, memory in candidates if memory.speaker)
        return {*self.said.speakers, *named_speakers(self.said.name, words(self.said.name), present)}

    def _is_said(self, memory: MemoryView, speakers: Set[str]) -> bool:
        return memory.speaker in speakers or reports(memory.text[:_READ_CHARS], self.said.names)

    def _is_in_time(self, memory: MemoryView) -> bool:
        intervals, moment = self.said.intervals, memory.ts
        return not intervals or (
            moment is not None
            and any(
                (one.start is None or one.start <= moment) and (one.end is None or moment < one.end)
                for one in intervals
            )
        )

    def _is_about(self, candidate: Candidate, memory: MemoryView) -> bool:
        if self.language is not None and language_of(words(memory.text[:_READ_CHARS])) != self.language:
            return True  # no word and no vector of another language can tell
        if self._has_word(memory) or self._is_near(candidate.key):
            return True
        return any(
            self.similarities.get(key, 0.0) >= _BESIDE_ABOUT
            or (key in self.memories and self._has_word(self.memories[key]))
            for key in memory.beside
        )

    def _is_near(self, key: int) -> bool:
        """Whether the topic is told in other words, as far as the model sees it."""
        cosine = self.similarities.get(key, 0.0)
        return cosine >= _ABOUT or cosine + self.closeness.get(key, 0.0) >= _BOTH_ABOUT

    def _has_word(self, memory: MemoryView) -> bool:
        """Whether the text has a word of the topic, in whatever form."""
        wanted = {_stem(word) for word in content_words(self.said.topic)}
        return not wanted.isdisjoint(map(_stem, words(_with_title(memory))))


def nothing_was_said(said: SaidBy | None, result: PassResult) -> Withheld | None:
    """Why the bundle is empty: that person said nothing about it, or nothing then."""
    if said is None or not said.is_strict or result.ranked or not result.dropped["not_said_by"]:
        return None
    missed = result.dropped["not_said_by"]
    return Withheld(reason=_reason(said), near_misses=missed)


def _reason(said: SaidBy) -> str:
    """The reason, without a word of the query: it stands in the decision log, where its text may not be kept."""
    about = " about it" if said.topic else ""
    then = " in the time asked about" if said.intervals else ""
    return f"nothing that was found is known to be said{about}{then} by the one who is named"


def _with_title(memory: MemoryView) -> str:
    return f"{memory.title or ''} {memory.text[:_READ_CHARS]}"


def _stem(word: str) -> str:
    return without_possessive(word).removesuffix("s")[:_STEM]
