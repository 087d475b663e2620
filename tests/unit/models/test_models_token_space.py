from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from orion_recall.models import embedder as embedder_module
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.onnx_encoder import OnnxEncoder, Weights
from orion_recall.models.token_space import (
    WIDTH,
    TokenSpace,
    TokenStates,
    TokenVectors,
    token_space_of,
)

QUESTION = "where did the zookeeper go?"


class Words:
    """A vocabulary of marks, characters and words, the frequent ones first."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def get_vocab_size(self) -> int:
        return len(self.words)

    def id_to_token(self, id: int) -> str | None:
        return self.words[id]


VOCABULARY = Words("[CLS]", "[SEP]", "?", "a", "7", "the", "crane", "##box", "zebra", "<s>", "é")


def states(ids: Sequence[int], dimension: int = 8) -> TokenStates:
    """The same vector for the same id."""
    rows = [np.random.default_rng(one).normal(size=dimension) for one in ids]
    return TokenStates(np.array(ids, dtype=np.int64), np.array(rows, dtype=np.float32).reshape(-1, dimension))


def space(width: int = 4) -> TokenSpace:
    def encode(texts: Sequence[str]) -> list[TokenStates]:
        return [states([VOCABULARY.words.index(word) for word in text.split()]) for text in texts]

    return TokenSpace(VOCABULARY, encode, width=width)


def test_marks_and_punctuation_are_left_out_and_every_token_is_a_unit_vector():
    tokens = space().document(states([0, 5, 6, 7, 2, 4, 10, 9, 1]))
    assert tokens.shape == (5, 4), "the, crane, ##box, 7 and é"
    np.testing.assert_allclose(np.linalg.norm(tokens, axis=1), 1.0, atol=1e-6)


def test_the_rarer_a_word_the_more_it_counts_and_all_together_count_one():
    tokens = space().query(states([5, 6, 8, 3]))
    the, crane, zebra, character = np.linalg.norm(tokens, axis=1).tolist()
    assert the < crane < zebra
    assert character == pytest.approx(0.3 * zebra, rel=0.35)
    assert the + crane + zebra + character == pytest.approx(1.0, abs=1e-6)


def test_the_real_models_space_is_the_same_every_time_and_keeps_what_is_near(weights: Weights):
    encoder = OnnxEncoder(weights)
    one = encoder.token_space()
    other = embedder_module.OnnxEncoder(weights).token_space()  # that of an earlier run, which the tests keep
    assert (one.name, one.width) == (f"vocabulary-{WIDTH}-1", WIDTH)
    vectors, (whole,) = encoder.encode_with_states(["The kitten sat on the mat."])
    np.testing.assert_allclose(vectors, encoder.encode(["The kitten sat on the mat."]), atol=1e-6)
    np.testing.assert_allclose(one.document(whole), other.document(whole), atol=1e-4)
    unit = whole.states / np.linalg.norm(whole.states, axis=1, keepdims=True)
    inside = unit[1:-2]  # without [CLS], the full stop and [SEP]
    # Small vectors, so not the same cosines: but near ones stay near.
    assert (
        np.corrcoef((inside @ inside.T).ravel(), (one.document(whole) @ one.document(whole).T).ravel())[0, 1] > 0.95
    )


async def test_one_run_of_the_model_gives_a_questions_vector_and_its_tokens(embedder: OnnxEmbedder):
    assert isinstance(embedder, TokenVectors)
    assert token_space_of(embedder) == f"vocabulary-{WIDTH}-1"
    misses = embedder.cache_misses
    tokens, vector = await asyncio.gather(embedder.query_tokens(QUESTION), embedder.embed_query(QUESTION))
    again = await embedder.query_tokens(QUESTION)
    assert embedder.cache_misses - misses == 1
    assert (vector.shape, tokens.shape[1]) == ((384,), embedder.token_width)
    np.testing.assert_array_equal(tokens, again)
    lengths = np.linalg.norm(tokens, axis=1)
    assert lengths.sum() == pytest.approx(1.0, abs=1e-5)
    assert lengths[2] < lengths[3], "the, zookeeper"


async def test_documents_have_the_vectors_they_have_alone_and_tokens_in_their_order(embedder: OnnxEmbedder):
    texts = ["A kitten sat on the rug.", "Trains to Berlin leave at noon, and again at six.", "?", "a cat " * 60]
    vectors, tokens = await embedder.documents_with_tokens(texts)
    np.testing.assert_allclose(vectors, await embedder.embed_documents(texts), atol=1e-5)
    assert [len(one) for one in tokens] == [6, 10, 1, 120]
    for text, one in zip(texts, tokens, strict=True):
        alone = (await embedder.documents_with_tokens([text]))[1][0]
        np.testing.assert_allclose(one, alone, atol=1e-4)
    asked = await embedder.query_tokens("where does the cat sit?")
    near = [float((asked @ one.T).max(axis=1).sum()) for one in tokens]
    assert near[0] > near[1] > near[2] == 0.0
