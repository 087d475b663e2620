from __future__ import annotations

import pytest

from orion_recall.errors import SettingsError
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import SHIPPED, KeywordWeights, MeanLengths, keyword_weights_of


def test_the_setting_names_what_differs_and_the_rest_is_as_shipped():
    assert keyword_weights_of("k1=1.2, b=0.5") == KeywordWeights(k1=1.2, b=0.5, length=32.0)
    assert keyword_weights_of("length=corpus") == KeywordWeights(length=None)
    assert keyword_weights_of("") == SHIPPED
    assert keyword_weights_of(SHIPPED) is SHIPPED
    assert Settings.read(keyword_weights="k1=2").keyword_weights.k1 == 2.0


@pytest.mark.parametrize(
    "text", ["k2=1", "k1=fast", "k1=-1", "b=1.5", "b=corpus", "length=0", "length=nan", "k1", "32"]
)
def test_what_makes_no_sense_is_refused(text: str):
    with pytest.raises(SettingsError, match="ORION_KEYWORD_WEIGHTS"):
        Settings.read(keyword_weights=text)


def test_the_shipped_weights_have_no_name_and_a_measurement_is_part_of_it():
    assert (SHIPPED.name, KeywordWeights(k1=1.5, b=0.75).name) == ("", "")
    assert KeywordWeights(k1=1.2).name == "k1=1.2,b=0.75,length=32"
    assert KeywordWeights(length=None).name == "k1=1.5,b=0.75,length=corpus"
    assert KeywordWeights(length=None, measured="2026-11-24").name.endswith("length=corpus as of 2026-11-24")


def test_a_tenant_without_a_measurement_has_the_fixed_length():
    weights = KeywordWeights(length=None, of_tenants={"ours": MeanLengths(4.0, 0.5)})
    assert [weights.mean_of("ours", "text"), weights.mean_of("ours", "context")] == [4.0, 1.0]
    assert weights.mean_of("theirs", "text") == 32.0
    assert KeywordWeights(length=10.0, of_tenants=weights.of_tenants).mean_of("ours", "text") == 10.0
