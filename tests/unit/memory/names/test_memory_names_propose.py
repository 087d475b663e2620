from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.memory.names.propose import NamesUsed, Proposals, propose
from orion_recall.memory.names.similar import core
from orion_recall.memory.record.aliases import NameKind


class Letters:
    """Vectors of pairs of letters: near when the spelling is. Names of `far` are near nothing."""

    name, dimension, weights_sha256 = "letters", 256, "b" * 64

    def __init__(self, far: Sequence[str] = ()) -> None:
        self.far = far
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            if text in self.far:
                vectors[row, 255 - self.far.index(text)] = 1
                continue
            for one, other in zip(text.casefold(), text.casefold()[1:], strict=False):
                vectors[row, (ord(one) * 7 + ord(other)) % 200] += 1
            vectors[row, 200] += 0.1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def used(*memories: Sequence[str]) -> NamesUsed:
    names = NamesUsed()
    for number, said in enumerate(memories):
        names.add(f"m{number}", said)
    return names


async def proposed(names: NamesUsed, kind: NameKind = "entity", embedder: Letters | None = None) -> Proposals:
    return await propose(names, embedder or Letters(), tenant="t", kind=kind, min_cosine=0.6)


def pairs(found: Proposals) -> list[tuple[str, str]]:
    return [(one.alias, one.into) for one in found.proposals]


async def test_the_name_that_more_memories_give_stays_then_the_longer_then_the_first() -> None:
    assert pairs(await proposed(used(["Jon Smith"], ["Jon Smith"], ["John Smith"]))) == [
        ("John Smith", "Jon Smith")
    ]
    assert pairs(await proposed(used(["Jon Smith"], ["John Smith"]))) == [("Jon Smith", "John Smith")]
    assert pairs(await proposed(used(["Jon Smitt"], ["Jon Smith"]))) == [("Jon Smitt", "Jon Smith")]


async def test_names_of_one_memory_are_two_unless_punctuation_is_all_that_differs() -> None:
    assert (await proposed(used(["Jon Smith", "John Smith"]))).left_out == {"together": 1}
    assert pairs(await proposed(used(["Fjord Labs", "Fjord-Labs"]))) == [("Fjord-Labs", "Fjord Labs")]


async def test_what_speaks_against_it_is_counted() -> None:
    found = await proposed(used(["Pier Seven A7"], ["Pier Seven A8"], ["Mr. Miles"], ["Mrs. Miles"]))
    assert (found.proposals, found.left_out) == ((), {"number": 1, "title": 1})


async def test_both_thresholds_count_and_only_what_is_spelt_alike_is_embedded() -> None:
    far = Letters(["Jon Smith"])
    names = used(["Jon Smith"], ["John Smith"], ["Oslo"])
    assert pairs(await proposed(names, embedder=far)) == []
    assert far.asked == ["John Smith", "Jon Smith"]


NAMES = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["Jon", "John", "Johan", "J.", "Mr. Jon", "Mrs. Jon", "Ana", "Anna"]),
        st.sampled_from(["Smith", "Smyth", "Smit", "Miles", "Mills", "7"]),
    ),
)


@given(memories=st.lists(st.lists(NAMES, max_size=3), max_size=10))
async def test_proposals_do_not_depend_on_the_order_of_memories(memories: list[list[str]]) -> None:
    found = await proposed(used(*memories))
    shuffled = [said[::-1] for said in memories[::-1]]
    again = await proposed(used(*shuffled))
    assert [(one.id, one.alias, one.into, one.string, one.cosine) for one in found.proposals] == [
        (one.id, one.alias, one.into, one.string, one.cosine) for one in again.proposals
    ]
    assert found.left_out == again.left_out
    aliases = [one.alias.casefold() for one in found.proposals]
    assert len(set(aliases)) == len(aliases)
    assert set(aliases).isdisjoint(one.into.casefold() for one in found.proposals)
    for one in found.proposals:
        assert one.string >= 0.85 and one.cosine >= 0.6
        assert one.alias_memories <= one.into_memories
        together = [said for said in memories if one.alias in said and one.into in said]
        assert not together or core(one.alias, "entity") == core(one.into, "entity")


class Meanings(Letters):
    """Names of one group have the same vector."""

    def __init__(self, *groups: Sequence[str]) -> None:
        super().__init__()
        self.groups = groups

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            place = next((place for place, group in enumerate(self.groups) if text in group), None)
            vectors[row, len(self.groups) + row if place is None else place] = 1
        return vectors


async def test_names_spelt_alike_are_proposed_by_letters_whatever_they_mean() -> None:
    names, far = used(["Robert Miles"], ["Robert Myles"]), Letters(far=["Robert Miles", "Robert Myles"])
    assert pairs(await propose(names, far, tenant="t", kind="entity")) == []
    found = await propose(names, far, tenant="t", kind="entity", by="letters")
    assert pairs(found) == [("Robert Myles", "Robert Miles")]
    assert found.proposals[0].string >= 0.85


async def test_names_near_in_meaning_are_proposed_however_they_are_spelt() -> None:
    names = used(["ship's doctor"], ["ship's doctor"], ["medical officer"], ["harbour"], ["Pier 7"], ["Quay 8"])
    meanings = Meanings(["ship's doctor", "medical officer"], ["Pier 7", "Quay 8"])
    assert pairs(await propose(names, meanings, tenant="t", kind="entity")) == []
    found = await propose(names, meanings, tenant="t", kind="entity", by="meaning")
    assert pairs(found) == [("medical officer", "ship's doctor")]
    assert found.proposals[0].cosine == 1.0 and found.proposals[0].string < 0.85
    assert found.left_out == {"number": 1}, "the guards reject these, too"
