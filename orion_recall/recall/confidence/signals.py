"""Signals of an answer: what tells whether any of the memories found answers the question, as numbers.

They are read from what a recall has already computed, and from the texts of the memories that were ranked. Each is
a number of about 0 to 1 that means the same on any collection. None depends on the order that the profile's weights
give, so that another order is not another probability. `answerable` makes a probability of them.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate

from orion_recall.models.language import language_of
from orion_recall.recall.confidence.personal_facts import lacks_fact
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.understand.chains import chains
from orion_recall.recall.understand.expansion import verb_forms
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.text.answers import gives_name, gives_number, tells_time
from orion_recall.text.normal import STOP_WORDS, content_words, speaks_of_itself, without_possessive, words
from orion_recall.text.people.kin import ANIMALS, KIN, SYNONYMS
from orion_recall.text.word_groups import VALUES, WORD_GROUPS
from orion_recall.values import SourceName
from orion_recall.when.clock import tells_clock

SIGNALS = (
    "late", "late_margin", "cosine", "cosine_margin", "found_anywhere", "found_names", "found_with_name",
    "found_of_name", "found_possessed", "answer_type", "agreement", "first_person", "words",
)  # fmt: skip
"""The names of the signals, in the order of the model's weights."""

LATE_SIGNALS = frozenset({"late", "late_margin"})
"""The signals that there are with late interaction only."""

READ_CHARS = 1000
"""Characters of a memory in which the question's words are looked for."""
_TYPED_ITEMS = 3
_NEXT = 10
_STEM = 5
_MOST_WORDS = 12
# Words of asking, which an answer need not have.
_ASKING = frozenset(
    """say says said tell tells told talk talked mention mentioned speak happen happened happens going go goes want
    wants wanted thing things anything something someone somebody everything much many kind sort type long often
    still currently nowadays recently ever give get gets getting got use uses
    think know come comes coming came put first last new please
    likely might consider based recommend suggest list show find remember remind name called ask asks asked answer
    answered reply replied write writes wrote written explain explained own owns owned owner belong
    belongs living""".split()
)
# "What day is the dentist on?" asks for a time, and "these days" for now, in words that no answer needs.
_ASKED_TIME = re.compile(
    r"\b(?:what|which) (?:day|date|time|hour|weekday|month|year)\b|\bthese days\b|\bat the moment\b", re.IGNORECASE
)
# Whose relative or animal is asked for, and how many words may stand between.
_OURS = frozenset(("my", "our"))
_BETWEEN = 2
# Words that ask for whatever lies in a period.
_CALENDAR = frozenset(
    """plan plans planned planning schedule scheduled agenda calendar appointment appointments event events task
    tasks todo due deadline deadlines upcoming deliver hand submit meeting meetings recap summary summarise
    summarize overview news change changes changed move moved cancel cancelled canceled
    postponed open diary commitments reminders plate""".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question asks about: its telling words, and its names as their words.

    `possessed` are the words of what it asks of a name: ("shoe", "size") of "Ana's shoe size". `kin` are relatives
    and animals of the asker, as in "my sister" and "our cat". `length` counts telling words, repeats as well.
    `names_time`: it names a time or a session, `is_of_time`: and nothing else.
    """

    words: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    possessed: tuple[str, ...] = ()
    length: int = 0
    kin: tuple[str, ...] = ()
    names_time: bool = False
    is_of_time: bool = False

    @property
    def attributes(self) -> tuple[str, ...]:
        """The telling words that are in no name."""
        named = {word for name in self.names for word in name}
        return tuple(word for word in self.words if word not in named)

    @property
    def is_open(self) -> bool:
        """Whether no memory can lack a word of it: it asks for whatever there is, at all or of a time.

        A text of many telling words is open as well: no memory has most of them.
        """
        if self.is_of_time or max(len(self.words), self.length) > _MOST_WORDS:
            return True
        return _CALENDAR.issuperset(self.attributes) and (self.names_time or not self.names)


def asked_about(understood: Understanding) -> Asked:
    """The telling words of a question: without stop words, words of asking, and words of an understood time."""
    question = understood.question
    timed = {word for interval in question.time.intervals for word in words(interval.words)}
    asking = {word for words_there in _ASKED_TIME.findall(question.text) for word in words(words_there)}
    telling = [
        without_possessive(word)
        for word in content_words(question.text)
        if word not in timed and word not in asking
    ]
    kept = [word for word in dict.fromkeys(telling) if word not in _ASKING and word not in STOP_WORDS]
    possessed = {word for chain in chains(question.text, None) for step in chain.via for word in words(step)}
    return Asked(
        words=tuple(kept),
        length=len(telling),
        names=_names(understood, timed),
        possessed=tuple(word for word in kept if word in possessed),
        kin=_kin(words(question.text)),
        names_time=bool(question.time.intervals or question.time.session),
        is_of_time=question.time.alone,
    )


def _kin(said: Sequence[str]) -> tuple[str, ...]:
    """The relatives and animals that are the asker's."""
    found: list[str] = []
    for place, word in enumerate(said):
        bare = without_possessive(word)
        if (bare in KIN or bare in ANIMALS) and not _OURS.isdisjoint(said[max(0, place - 1 - _BETWEEN) : place]):
            found.append(bare)
    return tuple(found)


def _names(understood: Understanding, timed: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """The names in the question. A word with a capital is none where it only begins the sentence."""
    first = next(iter(words(understood.question.text)), "")
    known = {word for name in understood.people for word in words(name)}
    found: list[tuple[str, ...]] = []
    for entity in understood.entities:
        if entity.name.isupper() and entity.kind == "capitalised":
            continue  # an abbreviation, or a word that is stressed
        name = [without_possessive(word) for word in words(entity.name)]
        if name[:1] == [without_possessive(first)] and name[0] not in known:
            name = name[1:]
        kept = tuple(word for word in name if word not in STOP_WORDS and word not in timed)
        if kept and kept not in found:
            found.append(kept)
    return tuple(found)


class _Texts:
    """The folded texts of the ranked memories, as one, so that a word is looked for in all of them at once."""

    def __init__(self, items: Sequence[ScoredCandidate]) -> None:
        told = [_told(item) for item in items]
        self.count = len(told)
        written = "\n".join(told)
        self._whole = written.lower()
        if len(self._whole) != len(written):  # İ and its like: places must stay those of the memories
            told = [text.lower() for text in told]
            self._whole = "\n".join(told)
        self._starts = list(accumulate([len(text) + 1 for text in told], initial=0))[: self.count]

    def having(self, word: str) -> frozenset[int]:
        """The places of the memories that have the word, a form of it, one that tells the same, or such a value."""
        forms = (word, *verb_forms(word), *WORD_GROUPS.get(word, ()))
        found: set[int] = set()
        for stem in dict.fromkeys(form[:_STEM] for form in forms):
            self._look_for(stem, found)
        if (value := VALUES.get(word)) is not None:
            found.update(bisect_right(self._starts, match.start()) - 1 for match in value.finditer(self._whole))
        return frozenset(found)

    def _look_for(self, stem: str, found: set[int]) -> None:
        """Adds the memories with a word that begins so; a stem shorter than the longest is a whole word."""
        whole, starts, length = self._whole, self._starts, len(stem)
        memory, place = 0, whole.find(stem)
        while place >= 0:
            end = place + length
            # Mostly a space stands before it: to see that is cheaper than to ask for letters.
            begins = (before := whole[place - 1 : place]) in ("", " ") or not before.isalnum()
            if begins and (length == _STEM or end == len(whole) or not _goes_on(whole, end)):
                memory = bisect_right(starts, place, memory)
                found.add(memory - 1)
                if memory == len(starts):
                    return
                end = starts[memory]  # what else it has of the word does not count
            place = whole.find(stem, end)


def _goes_on(text: str, end: int) -> bool:
    """Whether the word goes on there; a plural's s is not more of it."""
    if not text[end].isalnum():
        return False
    return text[end] != "s" or (end + 1 < len(text) and text[end + 1].isalnum())


def _told(item: ScoredCandidate) -> str:
    memory = item.memory
    return f"{memory.speaker or ''} {memory.title or ''} {memory.text[:READ_CHARS]}"


def nearest_items(result: PassResult) -> list[ScoredCandidate]:
    """The items that are nearest to the question, the nearest first: by late interaction, cosine, key."""
    closeness, items = result.closeness, result.scored
    compared = [
        (
            closeness.get(key := (candidate := one.candidate).key, -1.0),
            candidate.scores.get("vector", -1.0),
            key,
            place,
        )
        for place, one in enumerate(items)
    ]
    return [items[place] for *_, place in nlargest(_TYPED_ITEMS, compared)]


def speaks_otherwise(understood: Understanding, asked: Asked, nearest: ScoredCandidate) -> bool:
    """Whether the nearest memory is in another language than the question: it has none of its words.

    Names are the same in every language: a memory without those of the question is near by chance.
    """
    if language_of(words(nearest.memory.text[:READ_CHARS])) == understood.language:
        return False
    texts = _Texts([nearest])
    return not asked.names or any(all(texts.having(word) for word in name) for name in asked.names)


def signals(
    understood: Understanding, asked: Asked, result: PassResult, near: Sequence[ScoredCandidate]
) -> Mapping[str, float]:
    """The signals by name, of a pass that found something.

    `asked` is what the question asks about, `near` are the `nearest_items`.
    """
    items, closeness = result.scored, result.closeness
    texts = _Texts(items)
    having = {word: texts.having(word) for word in {*asked.words, *(word for name in asked.names for word in name)}}
    weights = {word: math.log1p(texts.count / (len(places) + 0.5)) for word, places in having.items()}
    candidates = [item.candidate for item in items]
    late = [closeness[one.key] for one in candidates if one.key in closeness]
    cosines = [one.scores["vector"] for one in candidates if "vector" in one.scores]
    named = [places for name in asked.names if (places := _all_of(name, having))]
    # Whoever asks for a relative or an animal of his calls it what he always calls it.
    unknown = sum(
        not any(texts.having(word) for word in (one, *SYNONYMS.get(one, ANIMALS.get(one, ())))) for one in asked.kin
    )
    names = len(asked.names) + unknown
    with_name = frozenset[int]().union(*named) if names else frozenset(range(texts.count))
    any_name = frozenset[int]().union(*(having[word] for name in asked.names for word in name))
    text, language = understood.question.text, understood.language
    if asked.names and lacks_fact(text, asked.attributes, items, any_name, language, most=READ_CHARS):
        late, cosines = [0.0] * bool(late), []  # another person's is no nearer
    found_with_name = _found_with(asked.attributes, with_name, having, weights)
    return {
        **({"late": max(late), "late_margin": _margin(late)} if late else {}),
        "cosine": max(cosines, default=0.0),
        "cosine_margin": _margin(cosines),
        "found_anywhere": _share(asked.words, weights, [word for word in asked.words if having[word]]),
        "found_names": len(named) / names if names else 1.0,
        "found_with_name": found_with_name,
        # Of "What size shoes does Hilde wear?" nothing that names her may have a word.
        "found_of_name": found_with_name if names and asked.attributes else 1.0,
        "found_possessed": _found_with(asked.possessed, with_name, having, weights) if asked.possessed else 1.0,
        "answer_type": _answer_type(understood, near),
        "agreement": _agreement(near[0], candidates),
        "first_person": 1.0 if speaks_of_itself(text) else 0.0,
        "words": min(len(asked.words), 6) / 6,
    }


def _all_of(name: Sequence[str], having: Mapping[str, frozenset[int]]) -> frozenset[int]:
    first, *others = (having[word] for word in name)
    return first.intersection(*others)


def _margin(values: Sequence[float]) -> float:
    """How far the best is above the mean of the next ten."""
    best, *further = sorted(values, reverse=True)[: _NEXT + 1] or [0.0]
    return best - sum(further) / len(further) if further else 0.0


def _share(asked: Sequence[str], weights: Mapping[str, float], found: Sequence[str]) -> float:
    """The share of the words' weight that was found; 1 for a question without telling words."""
    total = sum([weights[word] for word in asked])
    return sum([weights[word] for word in found]) / total if total else 1.0


def _found_with(
    asked: Sequence[str],
    places: frozenset[int],
    having: Mapping[str, frozenset[int]],
    weights: Mapping[str, float],
) -> float:
    """The share of the words that one of these memories has, at best; of no words, whether there is a memory."""
    if not asked:
        return 1.0 if places else 0.0
    found: dict[int, float] = {}
    for word in asked:
        for place in places & having[word]:
            found[place] = found.get(place, 0.0) + weights[word]
    return max(found.values(), default=0.0) / (sum([weights[word] for word in asked]) or 1.0)


def _answer_type(understood: Understanding, items: Sequence[ScoredCandidate]) -> float:
    """1 when the nearest items have the kind of answer that is asked for, or none in particular is; else 0."""
    question = understood.question
    texts = [item.memory.text[:READ_CHARS] for item in items]
    wanted = question.answer_type
    if question.time.asks_when and not any(tells_time(text) or tells_clock(text) for text in texts):
        return 0.0
    if wanted.number and not any(gives_number(text) for text in texts):
        return 0.0
    return 0.0 if wanted.name and not any(gives_name(text, wanted.known) for text in texts) else 1.0


def _agreement(nearest: ScoredCandidate, candidates: Sequence[Candidate]) -> float:
    """The share of pairs of late interaction, meaning and words that put the same memory first."""
    firsts = [nearest.candidate.key]
    sources: tuple[SourceName, ...] = ("vector", "lexical")
    for source in sources:
        found = [(score, one.key) for one in candidates if (score := one.scores.get(source))]
        if found:
            firsts.append(max(found)[1])
    pairs = [one == other for place, one in enumerate(firsts) for other in firsts[:place]]
    return sum(pairs) / len(pairs) if pairs else 0.0
