"""Token vectors of late interaction, projected to 96 numbers, stored with every memory.

A model gives every token of a text a vector before it takes their mean. These are projected to 96 numbers of unit
length. The projection comes from the model alone: the main axes of what it makes of common words of its own
vocabulary, so that nothing is fitted to memories. The weight of a word in a question is how far down the vocabulary
it stands, for vocabularies are ordered by how frequent their words are.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from orion_recall.text.normal import is_unspaced

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Vectors = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.float32]
"""Vectors of a text's tokens, shape (tokens, width)."""

WIDTH = 96
MOST_QUERY_TOKENS = 32
"""Of a longer question those that weigh most are compared: what a comparison costs grows with them."""

_COMMON_WORDS = 4_000
_SENTENCES, _SENTENCE_WORDS = 64, 12
# Raised when vectors of another way to project or to weigh cannot be compared with those of before.
_WAY = 2
# The prefixes by which some vocabularies mark the beginning of a word, and others its parts.
_BEGINS, _GOES_ON = "▁Ġ", "##"
_UNKNOWN = ("[UNK]", "<unk>")
# What comes before the words in a vocabulary - single characters, mostly - weighs this share of the rarest word.
_CHARACTER_SHARE = 0.3
# Rows times columns times depth up to which BLAS stays in its thread: waking others costs more than the work.
_ONE_THREAD = 1 << 18


class TokenStates(NamedTuple):
    """The last hidden states of a text's tokens: ids, shape (tokens,), and vectors, shape (tokens, dimension)."""

    ids: npt.NDArray[np.int64]
    states: npt.NDArray[np.floating]


@runtime_checkable
class TokenVectors(Protocol):
    """An embedder that also gives token vectors, from the same run of its model."""

    @property
    def token_space(self) -> str:
        """Names what the vectors depend on beside the model; "" when it makes none."""
        ...

    @property
    def token_width(self) -> int:
        """Floats in a token's vector."""
        ...

    async def query_tokens(self, text: str) -> Tokens:
        """A vector for each word of the question, times its share of the weight of all; none for one without words.

        The sum of their best dot products with a memory's tokens is in [-1, 1].
        """
        ...

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """What `embed_documents` gives, and for every text the unit vectors of its tokens, at least one."""
        ...


def token_space_of(embedder: object) -> str:
    """The embedder's token space; "" when it gives no vectors of tokens. ModelError while it is not known."""
    return embedder.token_space if isinstance(embedder, TokenVectors) else ""


class TokenSpace:
    """Converts the tokens of one model's texts to small vectors."""

    def __init__(
        self, vocabulary: Tokenizer, encode: Callable[[Sequence[str]], tuple[Vectors, Sequence[TokenStates]]]
    ) -> None:
        """Runs the model once over some words: about 0.3 s. `encode` gives vectors and states of texts."""
        words = [vocabulary.id_to_token(number) or "" for number in range(vocabulary.get_vocab_size())]
        self._unread = np.array([_is_unread(word) for word in words], dtype=np.bool_)
        self._counts = np.array([_is_word(word) for word in words], dtype=np.bool_) & ~self._unread
        self._weights = _weights(words)
        found = [self._counted(one) for one in encode(_sentences(words))[1]]
        self._projection = _main_axes(np.concatenate([states for _, states in found]))
        self.width = int(self._projection.shape[1])
        self.name = f"vocabulary-{self.width}-{_WAY}"

    def document(self, given: TokenStates) -> Tokens:
        """Unit vectors, shape (tokens, width); one of zeros, which is near to nothing, for a text without words."""
        _, states = self._counted(given)
        return self._projected(states) if len(states) else np.zeros((1, self.width), dtype=np.float32)

    def query(self, given: TokenStates) -> Tokens:
        """Vectors as long as the word's share of the weight of all, shape (tokens, width); none where the model
        reads less than half of the question."""
        ids, states = self._counted(given)
        if len(ids) < np.count_nonzero(self._unread[given.ids]):
            states = states[:0]
        weights = self._weights[ids]
        if len(ids) > MOST_QUERY_TOKENS:
            heaviest = np.sort(np.argsort(-weights, kind="stable")[:MOST_QUERY_TOKENS])
            weights, states = weights[heaviest], states[heaviest]
        if not len(states):
            return np.zeros((0, self.width), dtype=np.float32)
        return self._projected(states) * (weights / weights.sum())[:, None]

    def _counted(self, given: TokenStates) -> tuple[npt.NDArray[np.int64], Vectors]:
        counts = self._counts[given.ids]
        return given.ids[counts], given.states[counts].astype(np.float32, copy=False)

    def _projected(self, states: Vectors) -> Vectors:
        projected = products(states, self._projection)
        norms = np.sqrt(np.einsum("td,td->t", projected, projected))
        projected /= np.maximum(norms, 1e-12)[:, None]
        return projected


def products(rows: Vectors, matrix: Vectors) -> Vectors:
    """`rows @ matrix` in this thread."""
    made = np.empty((len(rows), matrix.shape[1]), dtype=np.float32)
    step = max(1, _ONE_THREAD // max(1, matrix.size))
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], matrix, out=made[start : start + step])
    return made


def _is_word(token: str) -> bool:
    """Whether a token is compared: it has a letter or a digit, and is no special token such as [CLS] or <s>."""
    is_mark = token[:1] + token[-1:] in ("[]", "<>") and len(token) > 1
    return not is_mark and any(unicodedata.category(character)[0] in "LN" for character in token.lstrip(_BEGINS))


def _is_unread(token: str) -> bool:
    """Whether a token stands for what the model does not read: it is unknown, or one character of a script without
    spaces, of which the vocabulary has no words then."""
    bare = token.lstrip(_BEGINS).removeprefix(_GOES_ON)
    return token in _UNKNOWN or (len(bare) == 1 and is_unspaced(bare))


def _whole(token: str) -> str:
    """The token's word, without the prefix of some vocabularies for a word's beginning; "" for a word part."""
    word = token.lstrip(_BEGINS)
    return word if len(word) > 1 and word.isascii() and word.isalpha() else ""


def _weights(words: Sequence[str]) -> Vectors:
    first = next((place for place, word in enumerate(words) if _whole(word)), 0)
    weights = np.log1p(np.maximum(np.arange(len(words)) - first + 1, 1)).astype(np.float32)
    weights[:first] = _CHARACTER_SHARE * weights.max(initial=1.0)
    return weights


def _sentences(words: Sequence[str]) -> list[str]:
    common = list(dict.fromkeys(word for token in words if (word := _whole(token))))[:_COMMON_WORDS]
    mixed = sorted(common, key=lambda word: hashlib.blake2b(word.encode()).digest())
    starts = range(0, min(len(mixed), _SENTENCES * _SENTENCE_WORDS), _SENTENCE_WORDS)
    return [" ".join(mixed[start : start + _SENTENCE_WORDS]) for start in starts] or ["a word"]


def _main_axes(states: Vectors) -> Vectors:
    """The directions in which the unit vectors differ from zero most, shape (dimension, at most WIDTH)."""
    exact = states.astype(np.float64)
    exact /= np.maximum(np.linalg.norm(exact, axis=1), 1e-12)[:, None]
    _, axes = np.linalg.eigh(exact.T @ exact)
    axes = axes[:, ::-1][:, :WIDTH]
    # Either sign of an axis would do: the one is taken that every machine takes.
    largest = np.abs(axes).argmax(axis=0)
    axes *= np.sign(axes[largest, np.arange(axes.shape[1])])
    return np.ascontiguousarray(axes, dtype=np.float32)
