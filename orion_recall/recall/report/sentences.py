"""Sentences for people, made from the codes and numbers of traces and decisions. Nothing reads them back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import islice, zip_longest
from typing import Any, Final, cast

from orion_recall.contracts.recall import NoAnswerV1
from orion_recall.recall.report.why_not import WhyNot
from orion_recall.scoring.parts import reasons
from orion_recall.source_specs import by_name, specs
from orion_recall.text.normal import one_line
from orion_recall.text.zones import zone_or_utc
from orion_recall.when.times import ordinal

Json = Mapping[str, Any]

LED_BY: Final[Json] = {
    "succession": "fetched with a memory that it succeeds",
    "follow_up": "fetched with the first hits, as they name it or stand beside it",
    "period": "listed as one of the time asked about",
}
STATED: Final[Json] = {
    "supersedes": "a message said so",
    "by_person": "a person said so",
    "by_extractor": "the extractor read it so",
}
DROPPED: Final[Json] = {
    "near_duplicate": "nearly the same as {}",
    "superseded": "succeeded by {}",
    "below_min_score": "its score is too low",
    "source_top_k": "its source has returned its maximum",
    "max_per_source": "enough of its source",
    "repetition": "most of its words are in an item before it",
    "max_total_items": "the bundle was full",
    "token_budget": "no tokens were left",
    "excluded": "the query leaves it out",
    "own_turn": "taken as the question itself, just said",
    "other_time": "not of the time asked about",
    "not_said_by": "not taken as said by the one who is named, or not then, or not about it",
    "other_people": "none of the people whom the question names is found in it",
    "instructs_reader": "it reads as an instruction to its reader",
    "over_fetch": "beyond the maximum of its layer",
    "no_answer": "withheld: not sure enough",
    "unsure": "beyond the nearest few of an unsure answer",
    "rank_pool": "not among the best of the fusion",
    "filtered": "not for this query to see",
    "deleted": "deleted or changed just now",
    "missing": "no longer there",
}
_NO_ANSWER: Final[Json] = {
    "no_words": "there is no word to search for",
    "greeting": "it is a greeting and asks nothing",
    "thanks": "it is thanks and asks nothing",
    "farewell": "it is a farewell and asks nothing",
    "acknowledgement": "it is an acknowledgement and asks nothing",
    "small_talk": "it is small talk and asks nothing",
    "below_min_probability": "the probability of an answer, {value:.3f}, is under the minimum of {minimum:g}",
    "below_min_confidence": "the confidence of {value:.3f} is under the minimum of {minimum:g}",
    "below_min_score": "the best score of {value:.3f} is under the minimum of {minimum:g}",
}
NOT_ASKED: Final[Json] = {
    "other_kinds": "the query asks for other kinds",
    "other_tags": "the query asks for other tags",
    "no_session": "the query has no session",
    "no_user": "the query has no user",
    "no_time": "no time was left",
}
_TRIGGERS: Final[Json] = {
    "not_asked": "{layer} was not asked: {not_asked}",
    "nothing_found": "{layer} found nothing",
    "relevance_unknown": "only words show the relevance of the first item of {layer}",
    "relevance_below_minimum": "the relevance {relevance:.3f} of {layer}'s first item is under {min_relevance:g}",
    "confidence_below_threshold": "the confidence {confidence:.3f} of {layer} is under the threshold {threshold:g}",
    "sure": "the confidence {confidence:.3f} of {layer} is not under the threshold {threshold:g}",
}
_ENDED: Final[Json] = {
    "confident": "{surest} is sure enough: {best:.3f}",
    "depth": "next layers may be asked {max_depth} times at most; the surest layer had {best:.3f}",
    "no_layer": "there is no further layer; the surest layer had {best:.3f}",
    "deadline": "no time was left for {left}; the surest layer had {best:.3f}",
}
_WHY_NOT: Final[Json] = {
    "kept": "It was handed over: it is {place} in the answer.",
    "kept_now": "It was not in the logged answer; asked again on {data}, it would be {place}.",
    "nothing_searched": "Nothing was searched: {why}.",
    "not_kept": "It cannot be known any more: {why}.",
    "no_reason": "It was left out: no reason was kept.",
    "stored_later": "It was stored after the question was asked.",
    "deleted": "It was deleted {when} the question was asked.",
    "replaced": "It was replaced by {by} {when} the question was asked.",
    "behind": "Index and graph had not applied it yet when the search began (read_at).",
    "changed_just_then": "It was changed or deleted just then: index and graph had not applied that yet.",
    "other_scope": "Only memories of the {what} {wanted} were searched, and it is of {own}.",
    "other_kind": "Only memories of the kind {wanted} were searched, and it is of the kind {own}.",
    "other_tag": "Only memories with the tag {wanted} were searched.",
    "undated": "Only a time was searched (since, until), and it is undated.",
    "before_since": "It is before the beginning (since) of the time that was searched.",
    "after_as_of": "It is after the time as of which the query was asked (as_of).",
    "after_until": "It is after the end (until) of the time that was searched.",
    "silent": "No source that answered has it: {silent}.",
    "never_found": "No source finds it, in lists of up to {deepest:,}: neither by the question's words, nor from "
    "what the question names, nor near enough in meaning (min_similarity).",
    "no_answer": "It was found and withheld with the whole answer: {reason}.",
    "rank_pool": "It is {ranks}, and not among the first after the fusion, which are ranked in full (rank_pool).",
    "end_of_lists": "It is near the end of its lists, where a search may break off at another place each time.",
    "beyond_lists": "It is not among the first {limit} of any source (budget): it is {place} of {source}.",
}
_KEYS: Final[Json] = {
    "excluded": "options.exclude",
    "instructs_reader": "reader_instructions",
    "superseded": "superseded",
    "below_min_score": "min_score",
    "unsure": "unsure_items",
    "source_top_k": ", ".join(spec.top_k_key for spec in specs()),
    "max_per_source": "max_per_source",
    "repetition": "max_repetition",
    "max_total_items": "k, max_total_items",
    "token_budget": "max_tokens, render_budget_tokens",
}
"""What decides about a reason: a key of the profile, or an option."""
# Scores are shown to three digits.
_SHOWN: Final = 5e-4
_MOST_EXPLAINED, _MOST_PARTS = 3, 3
_HOUR, _DAY = 3600.0, 86_400.0


def why_sentences(trace: Json) -> Iterator[str]:
    """Why the first items came first: a sentence or two for each, on one line; one for a recap."""
    understood: Json = trace.get("understood") or {}
    if understood.get("shape") == "recap" and (kept := _kept(trace)):
        yield _recap(understood.get("time") or {}, kept)
        return
    yield from islice(item_sentences(trace).values(), _MOST_EXPLAINED)


def item_sentences(trace: Json) -> dict[str, str]:
    """Why each item is at its place: a sentence or two by its id, in the order of the answer."""
    kept = _kept(trace)
    return {one["id"]: _item(one, following) for one, following in zip_longest(kept, kept[1:])}


def _kept(trace: Json) -> list[Json]:
    return [one for one in trace.get("candidates", ()) if one["kept"]]


def no_answer_words(why: NoAnswerV1 | Json) -> str:
    """Why there is no answer, as a sentence without its end."""
    told = why.model_dump() if isinstance(why, NoAnswerV1) else why
    return _NO_ANSWER[told["reason"]].format(**told)


def trigger_words(cascade: Json) -> str:
    """What the first layer's answer was, as a sentence without its end; `cascade` is a `CascadeV1` as JSON."""
    first: Json = cascade["path"][0]
    told = {**cascade, **first, "not_asked": NOT_ASKED.get(first.get("not_asked") or "")}
    return _TRIGGERS[cascade["trigger"]].format(**told)


def ended_words(cascade: Json) -> str:
    """Why the cascade ended, as a sentence without its end."""
    path = cascade["path"]
    surest = max(path, key=lambda step: step["confidence"] or 0.0)
    left = [step["layer"] for step in path if step.get("not_asked") == "no_time"]
    facts = {"surest": surest["layer"], "best": surest["confidence"] or 0.0, "left": ", ".join(left)}
    return _ENDED[cascade["ended"]].format(**cascade, **facts)


def dropped_words(reason: str, other: str = "another") -> str:
    """Why a candidate is not in the bundle, in a few words."""
    return DROPPED.get(reason, reason.replace("_", " ")).format(other)


def why_not_sentence(lost: WhyNot) -> str:
    """Why a memory is not in the answer, and by how much."""
    facts = dict(lost.facts)
    told = {name: _fact(name, value) for name, value in facts.items()}
    if lost.code == "no_answer":
        told["reason"] = no_answer_words(facts) if facts else "it was not sure enough"
    if (known := _WHY_NOT.get(lost.code)) is not None:
        words = known.format(**told)
    else:
        key = f" ({_KEYS[lost.code]})" if lost.code in _KEYS else ""
        place = f"; it is {told['place']} in the order" if facts.get("place") else ""
        words = f"It was left out: {dropped_words(lost.code, told.get('for', 'another'))}{key}{place}."
    if (by := lost.by_how_much) is not None:
        words += f" By how much: {length(by) if lost.unit == 'seconds' else f'{by:.6g} ({lost.unit})'}."
    if lost.stage == "deleted" and facts["when"] == "after":
        words += " What the search did with it was not kept, and cannot be found out any more."
    return f"{words} It is undated." if lost.code == "other_time" and facts.get("undated") else words


def interval_words(interval: Json, zone: str) -> str:
    """From when to when in the zone, which is named; a kept zone that is unknown here is UTC. `interval` is one of
    `understood`."""
    clock, name = zone_or_utc(zone)
    start, end = (_moment(interval[side], clock) if interval[side] else "any time" for side in ("from", "until"))
    return f'"{interval.get("words", "")}": {start} up to {end}, {name} ({interval["kind"]})'


def length(seconds: float) -> str:
    """So many seconds in the unit that one would say."""
    if seconds < 2 * _HOUR:
        return f"{seconds // 60:.0f} minutes" if seconds >= 120 else "less than 2 minutes"
    return f"{seconds // _HOUR:.0f} hours" if seconds < 2 * _DAY else f"{seconds // _DAY:.0f} days"


def _item(one: Json, following: Json | None) -> str:
    layer = f" in the layer {one['layer']}" if one.get("layer") else ""
    reasons = [f"{_found(one)}{layer}"]
    largest = [part for part in one["parts"][:_MOST_PARTS] if part["share"] > 0]
    if parts := [f"{part['share']:.3f} by {_part(part['part'])}" for part in largest]:
        reasons.append(f"most of its score is {', '.join(parts)}")
    if statements := one.get("statements"):
        reasons.append(f"read in texts for the graph: {', then '.join(map(one_line, statements))}")
    if older := one.get("succeeds"):
        reasons.append(
            f"it takes the place and the score of {one_line(older['id'])}, which it succeeds "
            f"({STATED[older['reason']]})"
        )
    if newer := one.get("ended_by"):
        reasons.append(f"succeeded by {one_line(newer['id'])} ({STATED[newer['reason']]})")
    head = f"{one_line(one['id'])} is {ordinal(one['place'])} with {one.get('score') or 0.0:.3f}"
    return f"{head}: {'; '.join(reasons)}.{_ahead(one, following)}"


def _found(one: Json) -> str:
    if not one["sources"]:
        return f"found by no search itself: {LED_BY.get(one.get('led_by') or '', 'fetched with what was found')}"
    best = sorted((how["rank"], name) for name, how in one["sources"].items())
    return f"found {', '.join(f'{ordinal(rank)} {_found_by(name)}' for rank, name in best)}"


def _found_by(name: str) -> str:
    return by_name()[name].found_by if name in by_name() else name  # a decision may name a source that has gone


def _ahead(one: Json, following: Json | None) -> str:
    lead = 0.0 if following is None else (one["score"] or 0.0) - (following["score"] or 0.0)
    if following is None or lead < 0:  # a source's cap may put a better one after it
        return ""
    if lead < _SHOWN:
        return " The next has the same score, or nearly: less than 0.001 lies between them."
    theirs = {part["part"]: part["share"] for part in following["parts"]}
    gains = {part["part"]: part["share"] - theirs.get(part["part"], 0.0) for part in one["parts"]}
    if not gains:  # the weights were not kept
        return f" It leads the next by {lead:.3f}."
    most = max(gains, key=lambda name: (gains[name], name))
    return f" It leads the next by {lead:.3f}, most of all by {_part(most)}."


def _part(name: str) -> str:
    return reasons().get(name, f"the part {name}")


def _recap(time: Json, kept: Sequence[Json]) -> str:
    held = f"{len(kept)} {'memory' if len(kept) == 1 else 'memories'}"
    beside = " from a day before to a day after it, as nothing was found of it itself"
    of = "time" if time.get("intervals") else "session"
    told = f"{held}{beside if time.get('widened') else ' of it'}"
    return f"The question is taken as one about a {of} as a whole, so this is a recap: {told}."


def _fact(name: str, value: Any) -> Any:
    """A number or id of a `WhyNot` as it stands in its sentence."""
    if value is None:
        return {"for": "another memory"}.get(name, "none")
    if name == "place":
        return ordinal(value)
    if name == "ranks":
        found = sorted(value.items(), key=lambda one: (one[1], one[0]))
        *parts, last = [f"{ordinal(rank)} of {source}" for source, rank in found]
        return f"{', '.join(parts)} and {last}" if parts else last
    if name == "silent":
        told = [
            f"{source} was {how['status']} ({how['error'] or 'no reason given'})" for source, how in value.items()
        ]
        return "; ".join(told)
    if isinstance(value, list):
        return " or ".join(one_line(str(one)) for one in cast("list[object]", value))
    return one_line(value) if isinstance(value, str) else value


def _moment(iso: str, clock: tzinfo) -> str:
    try:
        moment = datetime.fromisoformat(iso).astimezone(clock)
    except OverflowError:  # at the end of the calendar
        moment = datetime.fromisoformat(iso)
    is_midnight = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
    return f"{moment:%Y-%m-%d}" if is_midnight else f"{moment:%Y-%m-%d %H:%M}"
