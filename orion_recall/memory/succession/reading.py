"""What a text says, for the comparison of two texts: its subject words, families, values, actors and cues.

A reading is made once for a memory, in time linear in its length; of a long text the beginning is read. What it
holds is in `span`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from orion_recall.memory.succession.span import Reading, Span
from orion_recall.memory.told_changes.actors import (
    actors_in,
    called_in,
    holders_replaced_in,
    kin_of_others_in,
    leaving_in,
    surnames_in,
)
from orion_recall.memory.told_changes.claims import happened_in
from orion_recall.memory.told_changes.clauses import (
    Heard,
    changed_in,
    first_phrases,
    left_in,
    phrases_in,
    sentences_of,
    shift_phrase,
    up_to_change,
    without_absences,
    without_causes,
    without_long_ago,
    without_tags,
)
from orion_recall.memory.told_changes.codes import codes_in
from orion_recall.memory.told_changes.endings import aims_of
from orion_recall.memory.told_changes.occurrences import (
    comes_again,
    habits_in,
    is_of_one_day,
    is_of_one_time,
    named_after,
)
from orion_recall.memory.told_changes.plans import plan_of
from orion_recall.memory.told_changes.posts import (
    handed_in,
    headed_in,
    qualified_in,
    taken_over_in,
    without_temporary_handovers,
)
from orion_recall.memory.told_changes.statements import statements_in
from orion_recall.memory.told_changes.terms import families_of, stem, written_in
from orion_recall.memory.told_changes.thing_places import lent_in, placed_in, returned_in
from orion_recall.memory.told_changes.values import (
    TIMED,
    corrected_in,
    families_by_form,
    may_tell_price,
    values_of,
)
from orion_recall.memory.told_changes.what_ends import heads_of_ends, things_moved
from orion_recall.memory.told_changes.wishes import is_advice, is_condition, is_wish, without_wishes
from orion_recall.memory.told_changes.word_families import FAMILIES, ONE_VALUED
from orion_recall.memory.told_changes.word_lists import (
    GENERAL_WORDS,
    NEW,
    ROLES,
    TALK_WORDS,
    TRANSACTIONS,
)
from orion_recall.models.language import small_words
from orion_recall.text.normal import STOP_WORDS, is_question, without_possessive, words
from orion_recall.text.people.roles import is_assistant, names_assistant
from orion_recall.values import Memory, MemoryView

READ_CHARS = 2000
_INSTEAD = re.compile(r"\b(?:instead of|rather than|up from|down from) (?:[€$£]\s?)?(?P<value>\d[\d.,:]*)")
_TITLES = frozenset("dr mr mrs ms miss madame monsieur prof professor sir frau herr señor señora".split())
_QUOTED = re.compile(r'```.*?(?:```|\Z)|"[^"\n]{40,}"|“[^”\n]{40,}”|«[^»\n]{40,}»|\[[^\]\n]{20,}\]', re.DOTALL)
_FEW_WORDS = 60
_ARRIVES = frozenset("came comes arrived arrives starts started works runs went goes got gets".split())
_MOST_RENEWED = 3
_KNOWN = frozenset("the that this your his her their its".split())
_SECOND_PERSON = frozenset("you your yours you're you'll".split())
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
        span.cues
        or span.families & ONE_VALUED
        or span.handed
        or span.returned
        or span.corrected
        or span.statements
        or span.codes.phones
        or span.codes.codes
        or (span.comes_again and "weekday" in span.values)
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
    said = words(folded)
    weights: dict[str, float] = {}
    families: set[str] = set()
    because, called = without_causes(folded), called_in(sentences, names)
    for word, following in pairwise((*words(because), "")):
        bare = without_possessive(word)
        families |= families_of(bare) | families_of(word, following)
        if bare in STOP_WORDS or bare in _OTHER_SMALL_WORDS or (len(bare) < 2 and not bare.isdigit()):
            continue
        if bare in called:
            weight = 0.1
        elif bare in names:
            weight = 1.2
        elif bare in GENERAL_WORDS or bare in TALK_WORDS or bare.endswith("n't"):
            weight = 0.15
        elif bare.isdigit() or bare[0].isdigit():
            weight = 0.3
        else:
            weight = 1.0
        root = stem(bare)
        weights[root] = max(weight, weights.get(root, 0.0))
    values = values_of(folded, said, names - called)
    families |= families_by_form(folded)
    actors, kin, owned = actors_in(sentences, speaker, names)
    told = (one.casefold() for one in sentences if not is_question(one))
    as_said = without_long_ago("" if is_advice(one) or is_condition(one) else without_wishes(one) for one in told)
    stated = [words(without_absences(one)) for one in as_said]
    each = [without_temporary_handovers(phrases_in(sentence), sentence) for sentence in stated]
    phrases, aims = first_phrases(each), aims_of(stated, each)
    if "shift" in phrases and (of_new_time := shift_phrase(as_said)) is not None:
        phrases["shift"] = of_new_time
    if "shift" in phrases and not _TIMED.isdisjoint(values) and "moved" in said and _HOMES.isdisjoint(said):
        families.discard("home")  # a class that moved to Thursdays is nobody's flat
    if _LIVES_WITH.search(folded):
        families.discard("home")
    replaced = holders_replaced_in(sentences, speaker, names)
    heard: frozenset[Heard] = frozenset((*phrases, "handover")) if replaced else frozenset(phrases)
    parts = up_to_change(as_said)
    return Span(
        weights=weights,
        families=frozenset(families),
        values=values,
        cues=frozenset(one for one in heard if one != "adds" and one != "leaves"),
        adds="adds" in heard,
        actors=actors,
        leaving=leaving_in(sentences, speaker, names) | replaced if heard & {"leaves", "handover"} else replaced,
        renewed=_renewed(said),
        kin=kin,
        kin_of_others=kin_of_others_in(sentences),
        owned=owned,
        names=frozenset(stem(name) for name in names),
        # Who presents himself is named as well, "Bo, accounts", and not who only signs at the end.
        named=names | frozenset(speaker.split()[:1]).intersection(said[:-1]),
        addresses=not _SECOND_PERSON.isdisjoint(said),
        once=not TRANSACTIONS.isdisjoint(said),
        role=not ROLES.isdisjoint(said),
        changed=frozenset(
            map(stem, changed_in(stated if parts == as_said else [words(without_absences(one)) for one in parts]))
        ),
        # Read a second time only where somebody leaves: nothing else asks for it.
        changed_besides=frozenset(map(stem, changed_in(stated, besides="end") if aims.departing else ())),
        replaced=frozenset(one["value"].rstrip(".,:") for one in _INSTEAD.finditer(folded)),
        corrected=corrected_in(as_said) if "not" in said else {},
        left=left_in(folded),
        aims=aims,
        wishes=is_wish(folded),
        phrases=phrases,
        written=written_in(text),
        headed=headed_in(said),
        taken=taken_over_in(stated),
        handed=handed_in(stated, speaker, names),
        habits=habits_in(stated, each),
        placed=placed_in(stated, each),
        lent=lent_in(stated),
        returned=returned_in(stated),
        statements=statements_in(sentences, speaker),
        plan=plan_of(stated, each),
        qualified=qualified_in(said),
        may_tell_price=may_tell_price(folded),
        comes_again=comes_again(folded),
        one_time=is_of_one_time(folded),
        one_day=is_of_one_day(folded),
        named_after=named_after(said, names) if names else {},
        codes=codes_in(folded),
        ending=heads_of_ends(as_said, [one.get("end", "") for one in each]),
        moving=things_moved(stated, [one.get("shift", "") for one in each]),
        happened=happened_in([words(one.casefold()) for one in sentences], folded),
        surnames=surnames_in(sentences, names),
    )


def _renewed(said: Sequence[str]) -> frozenset[str]:
    """The stems of what is called new: "a new mobile number". "The new flat" is known already."""
    found: set[str] = set()
    for before, (place, word) in zip(("", *said), enumerate(said), strict=False):
        if word in NEW and before not in _KNOWN:
            named = takewhile(
                lambda one: one not in STOP_WORDS and one not in _ARRIVES,
                said[place + 1 : place + 1 + _MOST_RENEWED],
            )
            found.update(map(stem, named))
    return frozenset(found)
