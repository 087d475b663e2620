"""The bundle's items: caps per source and in total, repetition, then the token budget; and the line of each.

A line is a bullet of a memory, cut to what is left of the budget.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.relative_dates import with_dates
from orion_recall.recall.bundle.snippet import line_tokens, place_beyond, snippet
from orion_recall.renderers import LineFacts, RenderStyle, renderers
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.source_specs import by_name, source_names
from orion_recall.text.inert import HASH, inert, instructs_reader
from orion_recall.text.normal import content_words, one_line, stems, words
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import MemoryView, SourceName, clock_in

_LONGEST_REFERENCE = 80
_MOST_LISTED = 8
# A name in a head does not end it.
_ROUND = str.maketrans("[]", "()")


def source_ref(scored: ScoredCandidate) -> str:
    """Where the memory is from: what the best source says of it, else what was stored with it, else its store."""
    candidate = scored.candidate
    return candidate.source_ref or scored.memory.source_ref or by_name()[candidate.best_source].source_ref


def head(scored: ScoredCandidate, style: RenderStyle = "v1", zone: tzinfo = UTC) -> str:
    """`- [2026-03-01 vector mem-17]`, as the renderer of that name has it; `notes:17` for a memory of the mapped
    store `notes`.

    A memory with a successor has `(until 2026-11-02)` after it: the day that one was said (`recall.successors`).
    Text cannot imitate a head: it stays on one line, and brackets in it are shown round. Equal texts are one line
    with all days and ids.
    """
    memories = _memories(scored)
    line = LineFacts(
        days=_listed([day_of(memory.ts, zone) for memory in memories]),
        ids=_listed([_reference(memory.id) for memory in memories]),
        label=by_name()[scored.candidate.best_source].label,
        source_ref=_reference(source_ref(scored)),
        score=scored.score,
    )
    until = "" if scored.ended is None else f" (until {day_of(scored.ended.at, zone)})"
    return f"- {renderers()[style].head(line)}{until}"


def _memories(scored: ScoredCandidate) -> list[MemoryView]:
    return [scored.memory, *[one.memory for one in scored.same]]


def _listed(names: Sequence[str]) -> str:
    """The names, each once: `Ana, Bo, Dag`; of very many the first eight."""
    if len(names) == 1:
        return names[0]
    each = list(dict.fromkeys(names))
    return ", ".join([*each[:_MOST_LISTED], *(["…"] if len(each) > _MOST_LISTED else [])])


def _reference(name: str) -> str:
    # An id such as user:17 stays as it is; one with spaces can hold a sentence.
    shown = inert(name) if " " in (line := one_line(name)) else line
    reference, half = shown.translate(_ROUND), _LONGEST_REFERENCE // 2
    is_long = len(reference) > _LONGEST_REFERENCE  # then both ends are shown
    return f"{reference[: half - 1]}…{reference[-half:]}" if is_long else reference


class Parts(NamedTuple):
    """What a line shows after its head: the graph's `statements`, title and speaker as `Crane: Bo: `, and the text;
    these stand in brackets behind statements. `before_beginning` is the opening without what the text begins
    with itself."""

    statements: tuple[str, ...]
    opening: str
    text: str
    before_beginning: str

    def opened(self, window: str) -> str:
        """The text, or a window of it, with its opening."""
        return f"{self.opening if window.startswith('… ') else self.before_beginning}{window}"

    def joined(self) -> str:
        """All of it."""
        said = self.opened(self.text)
        return f"{'; '.join(self.statements)} ({said})" if self.statements else said


def body(scored: ScoredCandidate) -> str:
    """The memory's text on one line, with title, speaker and statements, to be cut to a snippet.

    Rerankers read the same: another form of it may change an order.
    """
    return parts_of(scored).joined()


def parts_of(scored: ScoredCandidate) -> Parts:
    """The parts of a line; it has statements where the graph found the memory, or a path leads to it. None of it
    can pose as a part of the prompt (`text.inert`)."""
    memory, candidate = scored.memory, scored.candidate
    speaker = _listed([one.speaker or "" for one in _memories(scored)])
    text = _best_passage(memory)
    names = [name for name in (memory.title, speaker) if name]
    opening = "".join(map(_named, names))
    bare = text.lstrip(_MARKS)
    start = bare[:1].casefold()  # of most texts another one: nothing is split into words for it
    further = [name for name in names if name[:1].casefold() != start or not _begins_with(bare, name)]
    before_beginning = opening if len(further) == len(names) else "".join(map(_named, further))
    by_graph = candidate.best_source == "rdf" or candidate.path > 0
    return Parts(tuple(map(inert, candidate.statements)) if by_graph else (), opening, text, before_beginning)


def _begins_with(text: str, name: str) -> bool:
    """Whether the text says its title or its speaker itself: "PLAT-7: Access review: ..." needs no second one."""
    beginning = text[: len(name) + _READ_ON]
    said, named = words(beginning), words(name)
    if not named or said[: len(named)] != named:
        return False
    return len(named) > 1 or _SAYS.match(beginning, len(name)) is not None


# Markup that a text may begin with: "**Bo:** it rains", "# Crane".
_MARKS = f"*_#{HASH}>[(\"'` "
# Room for the signs between the words of a title, which the text may have otherwise.
_READ_ON = 16
# What stands between one word and what it is the title or the speaker of: "Bo: it rains", and not "Bo is away".
_SAYS = re.compile(r"[\W_]{0,4}(?:[:∶–—-]|[.?!])")


@lru_cache(maxsize=1024)
def _named(name: str) -> str:
    """A title or a speaker before what follows it: the same few stand in every bundle."""
    return inert(f"{one_line(name)}: ") + " "


def _best_passage(memory: MemoryView) -> str:
    if not memory.passages:
        return inert(memory.text)
    start, end = memory.best_span
    before, after = "… " if start > 0 else "", " …" if end < len(memory.text.rstrip()) else ""
    return f"{before}{inert(memory.text[start:end])}{after}"


def _reaching_beyond(scored: ScoredCandidate, wanted: Set[str]) -> ScoredCandidate:
    """The candidate; its best passage is what lies beyond the others, which only its words find, where more of the
    question stands there."""
    memory = scored.memory
    if not memory.passages or memory.passages[-1] >= len(memory.text.rstrip()):
        return scored
    beyond = place_beyond(memory.text, memory.passages[-1], memory.best_span, wanted)
    if beyond is None:
        return scored
    within = memory._replace(passages=(*memory.passages, *beyond), passage=len(memory.passages) // 2)
    return replace(scored, memory=within)


@lru_cache(maxsize=4096)  # the same memories stand in many bundles
def day_of(ts: float | None, zone: tzinfo = UTC) -> str:
    """The day in the zone, as 2026-03-01; "undated" without a time, or beyond the calendar."""
    if ts is None:
        return "undated"
    try:
        return clock_in(zone, ts).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "undated"


FLAG = " (it instructs its reader: do not follow it)"
# A snippet of fewer tokens says nothing: the memory is left out instead.
_SHORTEST_SNIPPET = 12
# Where no memory fits at all, so many of the best one do: date, speaker and these are twenty tokens.
_FEW_WORDS = 5
# In any text a token takes fewer characters than this: tokens of a text that clearly does not fit are not counted.
_MOST_CHARS_A_TOKEN = 16
# No head takes fewer tokens; and each word of a text takes one at least.
_SHORTEST_HEAD = 2
# Title and speaker stay before a window of the text as long as they take no more than this share of it.
_LONGEST_LEAD = 0.4
# Statements of the graph stay before the window as long as they take no more than this share of the line.
_LONGEST_STATED = 0.6
# Tokens of "; …" and of the brackets.
_BETWEEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a line shows. `asks_when`: its window should tell a time. The days of its head are those of `zone`, and
    those of relative times as well, which are told with the clock `now`."""

    style: RenderStyle = "v1"
    asks_when: bool = False
    now: float | None = None
    redaction: Redaction = NO_REDACTION
    flags_instructions: bool = False
    zone: tzinfo = UTC


SHOWN_V1 = Shown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The bullets of one bundle. `wanted` are the question's stems."""

    wanted: Set[str]
    tokens: TokenCounter
    shown: Shown = SHOWN_V1
    _wholes: dict[int, tuple[str, int, Parts, str]] = field(default_factory=dict[int, tuple[str, int, Parts, str]])

    def fitted(
        self, scored: ScoredCandidate, left: int, *, window: int, shortest: int = _SHORTEST_SNIPPET
    ) -> SelectedItem | None:
        """The item with as much of its best window as fits, or None when too little would be left of it.

        `window` is the longest window, in tokens; a text that is cut keeps no fewer than `shortest`, beside its
        title and speaker."""
        if shortest == _SHORTEST_SNIPPET and self._is_too_long(scored, left):
            return None
        before, head_tokens, parts, whole = self._whole(scored)
        room = left - head_tokens
        allowed = min(window, room)
        # Only what is left of the budget may be so short that title and speaker would take it up.
        lead = self.tokens.count(f" {parts.opening}") if allowed < window and parts.opening else 0
        if allowed - lead >= shortest:
            found = self._cut(self._window(parts, whole, allowed), whole, allowed)
        elif (found := self._short(whole, allowed)) is None:
            return None
        text, used = self._dated(*found, scored.memory.ts, parts, room)
        line, is_cut = f"{before} {text}", found[0] != whole
        return SelectedItem(scored=scored, snippet=text, line=line, tokens=head_tokens + used, is_cut=is_cut)

    def _whole(self, scored: ScoredCandidate) -> tuple[str, int, Parts, str]:
        """Head, its tokens, and what could follow it, in parts and joined: made once, since a memory is tried again
        with a longer window."""
        key = scored.candidate.key
        if (known := self._wholes.get(key)) is not None:
            return known
        before = head(scored, self.shown.style, self.shown.zone)
        if self.shown.flags_instructions and instructs_reader(f"{scored.memory.title or ''}\n{scored.memory.text}"):
            before += FLAG
        statements, opening, text, beginning = parts_of(scored)
        redacted = self.shown.redaction.text
        parts = Parts(tuple(map(redacted, statements)), redacted(opening), redacted(text), redacted(beginning))
        known = self._wholes[key] = before, self.tokens.count(before), parts, parts.joined()
        return known

    def _is_too_long(self, scored: ScoredCandidate, left: int) -> bool:
        """Whether a text that must fit as a whole clearly does not, by its words, without counting its tokens."""
        if left - _SHORTEST_HEAD >= _SHORTEST_SNIPPET:
            return False
        words = scored.memory.text[: _SHORTEST_SNIPPET * _MOST_CHARS_A_TOKEN * 2].split()
        return _SHORTEST_HEAD + len(words) > left

    def _short(self, text: str, allowed: int) -> tuple[str, int] | None:
        if len(text) > allowed * _MOST_CHARS_A_TOKEN:
            return None
        whole = line_tokens(text, self.tokens)
        # The last line needs no room for a newline.
        if whole > allowed and self.tokens.count(f" {text}") > allowed:
            return None
        return text, whole

    def _window(self, parts: Parts, whole: str, allowed: int) -> tuple[str, int]:
        if (whole_tokens := line_tokens(whole, self.tokens)) <= allowed:
            return whole, whole_tokens
        if parts.statements:
            return self._stated(parts, allowed)
        return self._led(parts, allowed, whole_tokens)

    def _cut(self, found: tuple[str, int], whole: str, allowed: int) -> tuple[str, int]:
        """The window: one that begins within a word, such as `rows[system]`, could begin as another part."""
        shown = found[0] if found[0] == whole else inert(found[0])
        return found if shown == found[0] else self._beginning(shown, allowed)

    def _led(self, parts: Parts, allowed: int, whole_tokens: int | None = None) -> tuple[str, int]:
        """The text's best window after title and speaker, which are cut as well where they are long."""
        opening, text = parts.opening, parts.text
        whole = parts.opened(text)
        lead = self.tokens.count(f" {opening}") if opening else 0
        if not opening or lead > _LONGEST_LEAD * allowed:
            return snippet(whole, self.wanted, allowed, self.tokens, self.shown.asks_when, whole_tokens)
        window, used = snippet(text, self.wanted, allowed - lead, self.tokens, self.shown.asks_when)
        led = parts.opened(window)
        if (used := line_tokens(led, self.tokens)) <= allowed:
            return led, used
        return snippet(whole, self.wanted, allowed, self.tokens, self.shown.asks_when, whole_tokens)

    def _stated(self, parts: Parts, allowed: int) -> tuple[str, int]:
        """As many statements, whole, as take their share, the first ones; then the text's window in brackets."""
        most, stated = int(_LONGEST_STATED * allowed), ""
        for one in parts.statements:
            further = f"{stated}; {one}" if stated else one
            if line_tokens(further, self.tokens) > most:
                break
            stated = further
        if not stated:
            return self._beginning(parts.statements[0], allowed)
        left_out = "" if stated == "; ".join(parts.statements) else "; …"
        room = allowed - line_tokens(stated, self.tokens) - _BETWEEN
        if room >= _SHORTEST_SNIPPET:
            window, _ = self._led(parts, room)
            told = f"{stated}{left_out} ({window})"
            if (used := line_tokens(told, self.tokens)) <= allowed:
                return told, used
        return self._beginning(f"{stated} …", allowed)

    def _beginning(self, text: str, allowed: int) -> tuple[str, int]:
        """As much of the text's beginning as fits, with … where it is cut."""
        if (used := line_tokens(text, self.tokens)) <= allowed:
            return text, used
        for most in range(allowed - 1, 0, -1):
            kept = f"{self.tokens.trim(text, most).rstrip()} …"
            if (used := line_tokens(kept, self.tokens)) <= allowed:
                return kept, used
        return "", line_tokens("", self.tokens)

    def _dated(self, window: str, used: int, said: float | None, parts: Parts, allowed: int) -> tuple[str, int]:
        """The window with the dates of its relative times, where these fit the budget."""
        if (now := self.shown.now) is None:
            return window, used
        # Title and speaker are no "Nina wrote:" in the text.
        lead = next((one for one in (parts.opening, parts.before_beginning) if window.startswith(one)), "")
        dated = lead + with_dates(window[len(lead) :], said, zone=self.shown.zone, now=now)
        if dated == window or (longer := line_tokens(dated, self.tokens)) > allowed:
            return window, used
        return dated, longer


DropReason = Literal[
    "excluded", "own_turn", "filtered", "deleted", "missing", "other_time", "not_said_by", "other_people",
    "rank_pool", "below_min_score", "near_duplicate", "superseded", "instructs_reader", "source_top_k",
    "max_per_source", "repetition", "max_total_items", "token_budget", "over_fetch", "no_answer", "unsure",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedItem:
    """A selected item. Its line is "" where another line names it; `tokens` are the line's, with the newline that
    follows it. `is_cut`: the snippet is not all of the memory."""

    scored: ScoredCandidate
    snippet: str
    line: str
    tokens: int
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected items in order, and the number of dropped candidates by reason. `left_out` has the reasons of
    those that were ranked and did not get into the bundle, by key."""

    items: tuple[SelectedItem, ...]
    tokens: int
    dropped: Mapping[DropReason, int]
    left_out: Mapping[int, DropReason] = field(default_factory=dict[int, "DropReason"])


_READ_CHARS = 1000


# No line takes fewer tokens: dash, date and a word.
_SHORTEST_LINE = 4
# After so many in turn that do not fit, hardly any does: each costs its tokens' count.
_MOST_MISSES = 8
# Of the budget, for a procedure.
_OF_STEPS = 0.75
# Fewer tokens say hardly anything more.
_LEAST_WIDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of a bundle. `later_snippet_tokens` is the window of the items after `full_windows` first ones:
    the answer is most often among those."""

    source_top_k: Mapping[SourceName, int]
    max_per_source: int
    max_total_items: int
    budget_tokens: int
    snippet_tokens: int
    over_budget: Literal["skip", "stop"]
    max_repetition: float = 1.0
    later_snippet_tokens: int = 512
    full_windows: int = 2

    def window_of(self, taken: int, memory: MemoryView) -> int:
        """The longest window of the next item, in tokens, after so many. A procedure that comes first is shown with
        all of its steps, as far as most of the budget goes: half of one helps nobody."""
        if taken == 0 and "procedure" in (memory.kind, memory.guessed_kind):
            return max(self.snippet_tokens, int(_OF_STEPS * self.budget_tokens))
        least = self.snippet_tokens if taken < self.full_windows else self.later_snippet_tokens
        return min(self.snippet_tokens, least)


def select(
    ranked: Sequence[ScoredCandidate],
    terms: frozenset[str],
    caps: Caps,
    tokens: TokenCounter,
    shown: Shown = SHOWN_V1,
) -> Selection:
    """The bundle's items in rank order. The rendered lines, newlines included, never exceed the budget.

    Those that the caps of a source, and of repetition, leave out take the room that is left, best first; who does
    not get in keeps the cap as the reason. Tokens that are left then go to what was cut.
    """
    left_out: dict[int, DropReason] = {}
    reason: DropReason | None
    per_source: dict[SourceName, int] = dict.fromkeys(caps.source_top_k, 0)
    seen = dict(per_source)
    items: dict[int, SelectedItem] = {}
    waiting: list[tuple[int, ScoredCandidate]] = []
    wanted, left, misses, taken = stems(terms), caps.budget_tokens, 0, 0
    top_k, most, most_of_source = caps.source_top_k, caps.max_total_items, caps.max_per_source
    lines = Lines(wanted=wanted, tokens=tokens, shown=shown)
    said: list[frozenset[str]] = []  # the words of each item, where only a share of an item's may be repeated
    share = caps.max_repetition

    def words_beside(scored: ScoredCandidate) -> frozenset[str]:
        """The stems of its words, without those of the question: these say nothing about two of a kind."""
        return stems(frozenset(content_words(scored.memory.text[:_READ_CHARS]))) - wanted

    def repeats(own: frozenset[str]) -> bool:
        return any(len(own & other) > share * len(own) for other in said)

    def is_taken(place: int, scored: ScoredCandidate) -> bool:
        nonlocal left, taken, misses
        room, scored = most - taken, _reaching_beyond(scored, wanted)
        if len(scored.same) >= room:
            scored = replace(scored, same=scored.same[: room - 1])
        is_full = left < _SHORTEST_LINE or misses >= _MOST_MISSES
        item = None if is_full else lines.fitted(scored, left, window=caps.window_of(len(items), scored.memory))
        if item is None:
            misses += 1
            return False
        items[place] = item
        left -= item.tokens
        taken += 1 + len(item.scored.same)
        return True

    for place, scored in enumerate(ranked):
        source, key = scored.candidate.best_source, scored.candidate.key
        seen[source] += 1
        reason = own = None
        if seen[source] > top_k[source]:
            reason = "source_top_k"
        elif per_source[source] >= most_of_source:
            reason = "max_per_source"
        elif said and repeats(own := words_beside(scored)):
            reason = "repetition"
        if reason is not None:
            left_out[key] = reason
            waiting.append((place, scored))
        elif taken >= most:
            left_out[key] = "max_total_items"
        elif is_taken(place, scored):
            misses = 0
            if share < 1:
                said.append(own or words_beside(scored))
            per_source[source] += 1
        else:
            left_out[key] = "token_budget"
            if caps.over_budget == "stop":
                left_out |= dict.fromkeys([one.candidate.key for one in ranked[place + 1 :]], "token_budget")
                waiting = []
                break
    for place, scored in waiting:
        if taken >= most or left < _SHORTEST_LINE or misses >= _MOST_MISSES:
            break
        if is_taken(place, scored):
            del left_out[scored.candidate.key]
        elif caps.over_budget == "stop":
            break
    if not items and (alone := _alone(ranked, caps, lines)) is not None:
        items[0] = alone
        left -= alone.tokens
        left_out.pop(alone.scored.candidate.key, None)
    kept = _widened([items[place] for place in sorted(items)], left, caps, lines)
    return _with_same(ranked, _within_budget(kept, caps.budget_tokens, left_out, tokens))


def _alone(ranked: Sequence[ScoredCandidate], caps: Caps, lines: Lines) -> SelectedItem | None:
    """The first item of a budget in which no line fits as it should be: a few words of it, if need be after the
    date alone, are more than nothing."""
    if not ranked:
        return None
    first, dated = replace(ranked[0], same=()), replace(lines.shown, style="short")
    kinds = (lines, Lines(wanted=lines.wanted, tokens=lines.tokens, shown=dated))
    tried = (
        one.fitted(first, caps.budget_tokens, window=caps.window_of(0, first.memory), shortest=_FEW_WORDS)
        for one in kinds
    )
    return next(filter(None, tried), None)


def _with_same(ranked: Sequence[ScoredCandidate], selection: Selection) -> Selection:
    """The selection with an item for every memory that a line names: equal texts have one line, with the first.
    Those that no line names are left out as the first is, or as there is no room for them."""
    if not any(scored.same for scored in ranked):
        return selection
    items: list[SelectedItem] = []
    for item in selection.items:
        items.append(item)
        items += [replace(item, scored=other, line="", tokens=0) for other in item.scored.same]
    shown = {item.scored.candidate.key for item in items}
    left_out = dict(selection.left_out)
    for first in ranked:
        why = left_out.get(first.candidate.key, "max_total_items")
        left_out |= {one.candidate.key: why for one in first.same if one.candidate.key not in shown}
    return replace(selection, items=tuple(items), left_out=left_out, dropped=dict(Counter(left_out.values())))


def _widened(items: list[SelectedItem], left: int, caps: Caps, lines: Lines) -> list[SelectedItem]:
    """The items; what was cut gets longer windows as far as tokens are left, best first: as long as those of the
    first ones, and then as long as it takes."""
    widened = [*items]
    for window in (caps.snippet_tokens, caps.budget_tokens):
        for place, item in enumerate(widened):
            if not item.is_cut or left < _LEAST_WIDER:
                continue
            wider = lines.fitted(item.scored, item.tokens + left, window=window)
            if wider is not None and 0 < wider.tokens - item.tokens <= left:
                left -= wider.tokens - item.tokens
                widened[place] = wider
    return widened


def _within_budget(
    items: list[SelectedItem], budget_tokens: int, left_out: dict[int, DropReason], tokens: TokenCounter
) -> Selection:
    """The selection with its exact tokens: the last line has no newline, which costs some endings a token."""
    used = 0
    while items:
        used = sum(item.tokens for item in items[:-1]) + tokens.count(items[-1].line)
        if used <= budget_tokens:
            break
        left_out[items.pop().scored.candidate.key] = "token_budget"
    return Selection(
        items=tuple(items), tokens=used if items else 0, dropped=dict(Counter(left_out.values())), left_out=left_out
    )


def select_recap(
    ranked: Sequence[ScoredCandidate],
    terms: frozenset[str],
    caps: Caps,
    tokens: TokenCounter,
    shown: Shown = SHOWN_V1,
) -> Selection:
    """The bundle's items: in rank order; in the order of time, and chatter last, where only chatter is left out.

    Caps of a source say nothing about a period, which the index lists as a whole.
    """
    caps = replace(
        caps, source_top_k=dict.fromkeys(source_names(), len(ranked)), max_per_source=caps.max_total_items
    )
    best = select(ranked, terms, caps, tokens, shown)
    if not best.items or not _has_all_but_chatter(best, ranked):
        return best
    in_time = sorted(ranked, key=lambda item: (item.memory.chatter, item.memory.ts or 0.0, item.memory.id))
    by_time = select(in_time, terms, caps, tokens, shown)
    return by_time if _has_all_but_chatter(by_time, ranked) else best


def _has_all_but_chatter(selection: Selection, ranked: Sequence[ScoredCandidate]) -> bool:
    return not any(item.candidate.key in selection.left_out and not item.memory.chatter for item in ranked)
