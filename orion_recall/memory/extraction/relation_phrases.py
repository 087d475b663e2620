"""Relation phrases: which verbs and set phrases state which relation, longest phrase first."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.memory.extraction.units import Unit
from orion_recall.memory.extraction.word_lists import AFTER_LIST, SELECTIONS, STREETS

_RELATIONS = """
works at: work at, works at, working at, work for, works for, working for, got a job at, employed by, got a job
    with, has a job at, has a new job at, have a job at, have a new job at
works in: work in, works in, working in
worked at: worked at, worked for, used to work at, used to work for
works with: work with, works with, working with
worked with: worked with, used to work with
joined: joined, join, started at, started working at, started working for, started work at, started as a trainee
    at
left: left, quit, resigned from, retired from, got fired from, fired from
lives in: live in, lives in, living in, reside in, resides in, live on, lives on, lives at, live at
lived in: lived in, used to live in, resided in
lives with: live with, lives with, living with
moved to: moved to, moved back to, moved into, moved over to, relocated to, emigrated to, immigrated to
moved from: moved from
is from: from, originally from, come from, comes from, came from, hail from, hails from
grew up in: grew up in, raised in
born in: born in
born at: born at
died in: died in
based in: based in, headquartered in
located in: located in, situated in, lies in
met: met, met with, met up with
knows: know, knows
married to: married, married to, got married to, wed
engaged to: engaged to, got engaged to
dating: dating, going out with
divorced from: divorced, divorced from, got divorced from
owns: own, owns
owned: owned
owned by: owned by, owned and operated by
has: have, has, had
likes: like, likes, liked
loves: love, loves, loved, adore, adores
enjoys: enjoy, enjoys, enjoyed
prefers: prefer, prefers
dislikes: hate, hates, hated, dislike, dislikes
went to: went to, been to, travelled to, traveled to, flew to, drove to, went back to, trip to, got to
visited: visited, visit
adopted: adopted
adopted from: adopted from
bought: bought, purchased
sold: sold
founded: founded, co-founded, cofounded, established, set up
founded by: founded by, established by
started: started, launched, opened
created: created, built, made, invented, developed
created by: created by, built by, made by, invented by, developed by
designed: designed
designed by: designed by
wrote: wrote, co-wrote, authored
written by: written by
directed: directed
directed by: directed by, produced and directed by
produced: produced
produced by: produced by
painted: painted
painted by: painted by
composed: composed
composed by: composed by
published: published
published by: published by, released by, distributed by
performed by: performed by, recorded by, sung by
stars: stars
reports to: report to, reports to, reporting to, answer to, answers to
responsible for: responsible for, in charge of
looks after: look after, looks after, looking after, takes care of
coach of: coaches, coaching
trainer of: trains
supervisor of: supervises, supervising
assistant of: assists
mentor of: mentors, mentoring
maintains: maintain, maintains, maintaining
conducts: conducts, conduct, conducting
conducted by: conducted by
leads: lead, leads, leading, head, heads, run, runs, running
led: led, headed
led by: led by, headed by, run by
manages: manage, manages, managing
managed: managed
managed by: managed by
belongs to: belong to, belongs to, belonged to
part of: part of, a part of, a member of, member of
studies at: study at, studies at, studying at, attend, attends, attending
studied in: studied in
studied at: studied at, attended, educated at
graduated from: graduated from
teaches at: teach at, teaches at, teaching at
taught at: taught at
plays for: play for, plays for, playing for, signed for, signed with
played for: played for
supports: support, supports
read: read, reading, finished reading
watched: watched, watching, saw
hired: hired
invited: invited
married in: married in, got married in
succeeded by: succeeded by, replaced by
succeeded: succeeded, replaced, replaces, took over from, takes over from, took over for, has taken over from,
    taken over from, stepped in for
rents at: rents a desk at, rent a desk at, renting a desk at, rented a desk at, rents an office at, rent an
    office at, rents a room at, rent a room at, rents a studio at, rent a studio at
switched to: switched to, switched over to, switched back to, gone over to, went over to, gone back to, changed
    to, migrated to, moved over to
uses: use, uses, using
plays in: plays in, play in, plays bass in, plays guitar in, plays drums in, plays piano in, sings in, sing in
named after: named after, named for
won: won
flows into: flows into, flow into
flows through: flows through, flow through
borders: borders
"""


def _relations() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Relation phrases by their first word, longest first: (words, relation)."""
    table: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for line in _RELATIONS.replace("\n    ", " ").strip().splitlines():
        relation, _, phrases = line.partition(":")
        for phrase in phrases.split(","):
            parts = tuple(phrase.split())
            table.setdefault(parts[0], []).append((parts, relation))
    for phrases in table.values():
        phrases.sort(key=lambda entry: -len(entry[0]))
    return table


RELATIONS = _relations()
# Right after a name these are no verbs ("people like Mira", "Mira own"): an auxiliary or "I" must come first.
BARE_FORMS = frozenset("like own head run lead visit support love know hate from use using conduct look".split())
# Relations whose object may be a thing without a name: "owns the billing service".
OF_THINGS = frozenset(
    """owns|owned by|belongs to|leads|led by|manages|managed by|maintains|responsible for|looks after|conducts
    |conducted by""".replace("\n    ", "").split("|")
)
# Relations whose object may be "it" or "there", and those that "it" may be the subject of.
OF_IT = OF_THINGS | frozenset(
    "founded|joined|left|bought|sold|wrote|directed|designed|works at|lives in|runs".split("|")
)
IT_IS = frozenset(
    """owned by|belongs to|led by|managed by|conducted by|founded by|designed by|written by|created by|located in
    |based in|part of|named after|borders""".replace("\n    ", "").split("|")
)
# Those that a thing without a name may be the subject of.
THING_IS = frozenset(("owned by", "belongs to", "led by", "managed by", "conducted by"))
# Who owns a house in a street does not own the street.
_OF_HOUSES = frozenset(("owns", "owned", "bought", "sold"))
_MOST_BEFORE_SELECTION = 3
# Verbs with "there" after them.
THERE = {
    "work": "works at", "works": "works at", "working": "works at", "live": "lives in", "lives": "lives in",
    "study": "studies at", "studies": "studies at",
}  # fmt: skip
# What somebody does for me tells what they are: "she does my accounts".
DOES_MY: dict[tuple[str, str], str] = {
    (verb, noun): role
    for role, verbs, nouns in (
        ("accountant", "do does doing keeps keep", "accounts books bookkeeping taxes accounting"),
        ("hairdresser", "cuts cut does do", "hair fringe"),
        ("cleaner", "cleans", "flat house apartment office"),
        ("gardener", "does mows", "garden lawn"),
        ("supervisor", "supervises", "thesis dissertation"),
        ("mechanic", "fixes repairs services", "car bike van motorbike"),
    )
    for verb in verbs.split()
    for noun in nouns.split()
}


def objects_meant(
    verb: str, relation: str, objects: list[str], units: Sequence[Unit], start: int, end: int
) -> list[str]:
    """The names in units[start:end] behind a verb that are its objects, a house with its number.

    Nobody made the Lynx who "made the Lynx team", nor Bo who "made Bo laugh".
    """
    if not objects or (verb == "made" and relation == "created" and not _makes(units, start, end)):
        return []
    if relation not in _OF_HOUSES or not units[start].folded.isdigit() or units[start + 1].text != objects[0]:
        return objects
    is_street = objects[0].split()[-1].casefold() in STREETS
    return [f"{units[start].text} {objects[0]}", *objects[1:]] if is_street else objects


def _makes(units: Sequence[Unit], start: int, end: int) -> bool:
    following = units[end] if end < len(units) else None
    is_whole = following is None or following.kind == "mark" or following.folded in AFTER_LIST
    if units[start].folded != "the":
        return is_whole
    after = (unit.folded for unit in units[end : end + _MOST_BEFORE_SELECTION])
    return not is_whole and SELECTIONS.isdisjoint(after)
