"""What a text says, for the comparison of two texts: its subject words, families, values, actors and cues.

A reading is made once for a memory, in time linear in its length; of a long text the beginning is read. What it
holds is in `span`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from orion_recall.memory.succession.span import Reading, Span
from orion_recall.memory.told_changes.actors import called_in, holders_replaced_in, people_in
from orion_recall.memory.told_changes.change import change_in
from orion_recall.memory.told_changes.claims import happened_in
from orion_recall.memory.told_changes.clauses import sentences_of, without_causes, without_tags
from orion_recall.memory.told_changes.codes import codes_in
from orion_recall.memory.told_changes.occurrences import named_after, recurrence_in
from orion_recall.memory.told_changes.plans import plan_of
from orion_recall.memory.told_changes.posts import posts_in
from orion_recall.memory.told_changes.stated import stated_in
from orion_recall.memory.told_changes.statements import statements_in
from orion_recall.memory.told_changes.terms import families_of, stem, written_in
from orion_recall.memory.told_changes.thing_places import things_in
from orion_recall.memory.told_changes.values import TIMED, families_by_form, values_of
from orion_recall.memory.told_changes.word_families import FAMILIES, ONE_VALUED
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, TALK_WORDS, TRANSACTIONS
from orion_recall.models.language import small_words
from orion_recall.text.normal import STOP_WORDS, is_question, without_possessive, words
from orion_recall.text.people.roles import is_assistant, names_assistant
from orion_recall.values import Memory, MemoryView

READ_CHARS = 2000
_TITLES = frozenset("dr mr mrs ms miss madame monsieur prof professor sir frau herr señor señora".split())
_QUOTED = re.compile(r'```.*?(?:```|\Z)|"[^"\n]{40,}"|“[^”\n]{40,}”|«[^»\n]{40,}»|\[[^\]\n]{20,}\]', re.DOTALL)
_FEW_WORDS = 60
_OTHER_SMALL_WORDS = small_words("french") | small_words("german") | small_words("spanish")
_TIMED = frozenset(TIMED)
# What something only looks or feels like: "my fingers look like I milked them". "It looks like we move" is none.
_LIKENED = re.compile(
    r"(?<!\bit )(?<!\bthat )(?<!\bthis )(?<=\w )\b(?:look|feel|felt|sound|smell|taste)\w*(?: \w+)?"
    r" (?:like|as if|as though)\b[^,.;:!?\n]*",
    re.IGNORECASE,
)
# With whom somebody lives changes nothing of where.
_LIVES_WITH = re.compile(r"\bliv(?:e|es|ing) (?:together )?with\b(?!.*\b(?:in|at)\b)")
_HOMES = frozenset(FAMILIES["home"].split()) - {"moved"}


def read(memory: Memory) -> Reading:
    """The memory as the comparison needs it."""
    at = memory.occurred_at if memory.occurred_at is not None else memory.mentioned_at
    assistant = is_assistant(memory.speaker, agent_id=memory.agent_id, role=memory.metadata.get("role"))
    return _read(memory, memory.tenant, at, assistant=assistant)


def read_view(memory: MemoryView, tenant: str) -> Reading:
    """The same of a memory as an index holds it."""
    return _read(memory, tenant, memory.ts, assistant=memory.assistant or names_assistant(memory.speaker))


def may_succeed(new: Reading) -> bool:
    """Whether its text has a cue of change, or tells a value of what usually has one: a rent, a code, weekdays."""
    if new.asks:
        return False
    return any(
        span.change.cues
        or span.families & ONE_VALUED
        or span.posts.handed
        or span.things.returned
        or span.change.corrected
        or span.statements
        or span.codes.phones
        or span.codes.codes
        or (span.recurrence.comes_again and "weekday" in span.values)
        for span in new.spans
    )


def _read(memory: Memory | MemoryView, tenant: str, at: float | None, *, assistant: bool) -> Reading:
    # What somebody else is quoted with states nothing of the speaker.
    text = without_tags(_QUOTED.sub(" ", _LIKENED.sub(" ", memory.text[:READ_CHARS].replace("’", "'"))))
    speaker = (memory.speaker or "").casefold()
    names = _name_words(memory.entities, speaker)
    sentences = sentences_of(text)
    whole = _span(text, sentences, speaker, names)
    if len(words(text)) <= _FEW_WORDS:
        spans: tuple[Span, ...] = (whole,)
    else:
        spans = tuple(
            _span(" ".join(near), near, speaker, names)
            for near in (sentences[max(0, place - 1) : place + 2] for place in range(len(sentences)))
        )
    return Reading(
        id=memory.id,
        tenant=tenant,
        speaker=speaker,
        at=at,
        text_hash=memory.text_hash,
        spans=spans,
        whole=whole,
        asks=bool(sentences) and all(is_question(one) for one in sentences),
        assistant=assistant,
        terms=frozenset(term for term, weight in whole.weights.items() if weight >= 1.0),
    )


def _name_words(entities: Sequence[str], speaker: str) -> frozenset[str]:
    own = frozenset(words(speaker))
    return frozenset(
        without_possessive(word)
        for name in entities
        for word in words(name)
        if word not in own and len(word) > 1 and word not in _TITLES
    )


def _span(text: str, sentences: Sequence[str], speaker: str, names: frozenset[str]) -> Span:
    folded = text.casefold()
    said, stated = words(folded), stated_in(sentences)
    called = called_in(sentences, names)
    values = values_of(folded, said, names - called)
    replaced = holders_replaced_in(sentences, speaker, names)
    change = change_in(folded, said, stated, hands_over=bool(replaced))
    about = words(without_causes(folded))
    families = _families(about) | families_by_form(folded)
    of_a_class = "shift" in change.phrases and not _TIMED.isdisjoint(values) and "moved" in said
    if (of_a_class and _HOMES.isdisjoint(said)) or _LIVES_WITH.search(folded):
        families.discard("home")  # a class that moved to Thursdays is nobody's flat
    return Span(
        weights=_weights(about, names, called),
        families=frozenset(families),
        values=values,
        written=written_in(text),
        names=frozenset(stem(name) for name in names),
        # Who presents himself is named as well, "Bo, accounts", and not who only signs at the end.
        named=names | frozenset(speaker.split()[:1]).intersection(said[:-1]),
        named_after=named_after(said, names) if names else {},
        change=change,
        people=people_in(sentences, said, speaker, names, replaced=replaced, leaves=change.leaves),
        posts=posts_in(said, stated.words, speaker, names),
        recurrence=recurrence_in(folded, stated.words, stated.phrases),
        things=things_in(stated.words, stated.phrases),
        codes=codes_in(folded),
        statements=statements_in(sentences, speaker),
        plan=plan_of(stated.words, stated.phrases),
        happened=happened_in([words(one.casefold()) for one in sentences], folded),
        once=not TRANSACTIONS.isdisjoint(said),
    )


def _families(about: Sequence[str]) -> set[str]:
    """The families of the words; some are of one only with the word that follows."""
    found: set[str] = set()
    for word, following in pairwise((*about, "")):
        found |= families_of(without_possessive(word)) | families_of(word, following)
    return found


def _weights(about: Sequence[str], names: frozenset[str], called: frozenset[str]) -> dict[str, float]:
    """How much the stem of each word tells of the subject; `called` are the names that are only called out."""
    weights: dict[str, float] = {}
    for bare in map(without_possessive, about):
        if bare in STOP_WORDS or bare in _OTHER_SMALL_WORDS or (len(bare) < 2 and not bare.isdigit()):
            continue
        if bare in called:
            weight = 0.1
        elif bare in names:
            weight = 1.2
        elif bare in GENERAL_WORDS or bare in TALK_WORDS or bare.endswith("n't"):
            weight = 0.15
        elif bare[0].isdigit():
            weight = 0.3
        else:
            weight = 1.0
        root = stem(bare)
        weights[root] = max(weight, weights.get(root, 0.0))
    return weights
