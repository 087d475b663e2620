from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.memory.names import merges as module
from orion_recall.memory.names.merges import NamesUsed, propose


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


async def proposed(
    names: NamesUsed, embedder: Letters | None = None, min_cosine: float = 0.6
) -> list[tuple[str, str]]:
    found = await propose(names, embedder or Letters(), tenant="t", kind="entity", min_cosine=min_cosine)
    return [(one.alias, one.into) for one in found]


async def test_the_name_that_more_memories_give_stays_then_the_longer_then_the_first() -> None:
    assert await proposed(used(["Jon Smith"], ["Jon Smith"], ["John Smith"])) == [("John Smith", "Jon Smith")]
    assert await proposed(used(["Jon Smith"], ["John Smith"])) == [("Jon Smith", "John Smith")]
    assert await proposed(used(["Jon Smitt"], ["Jon Smith"])) == [("Jon Smitt", "Jon Smith")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("R. Miles", "Robert Miles"),
        ("Miles, Robert", "Robert Miles"),
        ("Ana Silva", "Dr. Ana Silva"),
        ("Fjord-Labs", "Fjord Labs"),
        ("Jon Smith", "John Smith"),
    ],
)
async def test_names_that_are_spelt_alike_are_proposed(one: str, other: str) -> None:
    assert set((await proposed(used([one], [other]), min_cosine=0.0))[0]) == {one, other}


@pytest.mark.parametrize(
    "memories", [(["Jon Smith", "John Smith"],), (["Pier Seven A7"], ["Pier Seven A8"]), (["Oslo"], ["Bergen"])]
)
async def test_names_of_one_memory_or_with_other_numbers_are_two(memories: tuple[list[str], ...]) -> None:
    assert await proposed(used(*memories)) == []


async def test_punctuation_alone_makes_no_two_names_of_one_memory() -> None:
    assert await proposed(used(["Fjord Labs", "Fjord-Labs"])) == [("Fjord-Labs", "Fjord Labs")]


async def test_both_thresholds_count_and_only_what_is_spelt_alike_is_embedded() -> None:
    far = Letters(["Jon Smith"])
    assert await proposed(used(["Jon Smith"], ["John Smith"], ["Oslo"]), far) == []
    assert far.asked == ["John Smith", "Jon Smith"]


async def test_the_work_grows_with_the_names_and_not_with_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    real = module.spelling_similarity

    def counted(one: Sequence[str], other: Sequence[str]) -> float:
        nonlocal compared
        compared += 1
        return real(one, other)

    monkeypatch.setattr(module, "spelling_similarity", counted)
    await proposed(used(*([f"ana {number:04d}x"] for number in range(1500))))
    assert compared < 40 * 1500


NAMES = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["Jon", "John", "Johan", "J.", "Mr. Jon", "Mrs. Jon", "Ana", "Anna"]),
        st.sampled_from(["Smith", "Smyth", "Smit", "Miles", "Mills", "7"]),
    ),
)


@given(memories=st.lists(st.lists(NAMES, max_size=3), max_size=10))
async def test_proposals_do_not_depend_on_the_order_of_memories(memories: list[list[str]]) -> None:
    shuffled = [said[::-1] for said in memories[::-1]]
    found, again = [
        await propose(used(*given), Letters(), tenant="t", kind="entity", min_cosine=0.6)
        for given in (memories, shuffled)
    ]
    assert [(one.id, one.alias, one.into, one.string, one.cosine) for one in found] == [
        (one.id, one.alias, one.into, one.string, one.cosine) for one in again
    ]
    aliases = [one.alias.casefold() for one in found]
    assert len(set(aliases)) == len(aliases)
    assert set(aliases).isdisjoint(one.into.casefold() for one in found)
    for one in found:
        assert one.string >= 0.85 and one.cosine >= 0.6
        assert one.alias_memories <= one.into_memories
