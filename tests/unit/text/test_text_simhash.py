from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orion_recall.text.simhash import simhash


@given(st.text())
def test_a_signature_fits_a_signed_64_bit_integer(text: str):
    assert -(2**63) <= simhash(text) < 2**63


def test_signatures_of_like_texts_are_near_and_of_unlike_ones_are_far():
    base = [f"word{number}" for number in range(60)]
    near = " ".join([*base[:-1], "other"])
    far = " ".join(f"thing{number}" for number in range(60))
    signature = simhash(" ".join(base))

    def differing(other: str) -> int:
        return ((signature ^ simhash(other)) & (2**64 - 1)).bit_count()

    assert differing(" ".join(base).upper()) == 0
    assert differing(near) <= 12
    assert differing(far) > 16
    assert simhash("!?") == 0
