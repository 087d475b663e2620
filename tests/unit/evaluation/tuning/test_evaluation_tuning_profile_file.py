from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.tuning.profile_file import with_ranking, write_profile
from orion_recall.profile.reading import load_profile
from orion_recall.shipped import shipped_folder

WEIGHTS = {"fusion": 0.75, "neighbour": 0.5, "session": 1.0, "recency": 0.05}
TEXT = """\
# What this is for.
profile: mine.v1   # its name
vector_top_k: 6
rdf_top_k: 0
ranking:           # how it is ranked
  fusion: 1
  recency: 0.1

# The end.
max_per_source: 4
max_total_items: 8
render_budget_tokens: 200
"""


def test_weights_and_name_are_other_and_the_rest_is_as_it_was():
    made = with_ranking(TEXT, "tuned.v1", WEIGHTS)
    assert made == TEXT.replace("profile: mine.v1   # its name", "profile: tuned.v1").replace(
        "ranking:           # how it is ranked\n  fusion: 1\n  recency: 0.1\n",
        "ranking: {fusion: 0.75, similarity: 0, neighbour: 0.5, session: 1, recency: 0.05}\n",
    )


def test_a_profile_without_weights_gets_them_at_its_end():
    bare = TEXT.replace("ranking:           # how it is ranked\n  fusion: 1\n  recency: 0.1\n", "").rstrip("\n")
    made = with_ranking(bare, "mine.v1", WEIGHTS)
    assert made.splitlines()[-1].startswith("ranking: {fusion: 0.75")
    assert made.splitlines()[-2] == "render_budget_tokens: 200"


def test_learned_weights_are_for_all_talk_with_an_assistant_or_without():
    told = "ranking_with_assistant:  # in chats\n  role: 1\n"
    made = with_ranking(TEXT.replace("\n# The end.", f"{told}\n# The end."), "mine.v1", WEIGHTS)
    assert made == with_ranking(TEXT, "mine.v1", WEIGHTS)


@pytest.mark.parametrize("name", ["assist.light.v1", "reflect.v1", "deep.graph.v1"])
def test_a_shipped_profile_is_written_and_read_again_with_its_comments(name: str, tmp_path: Path):
    source = shipped_folder("profiles") / f"{name}.yaml"
    written = write_profile(source, tmp_path / "mine.v2.yaml", WEIGHTS)
    assert written == load_profile(tmp_path / "mine.v2.yaml")
    before = load_profile(source)
    kept = {"profile": name, "ranking": before.ranking, "ranking_with_assistant": before.ranking_with_assistant}
    assert written.model_copy(update=kept) == before
    assert (written.ranking.session, written.ranking.similarity) == (1.0, 0.0)
    comments = [line for line in source.read_text("utf-8").splitlines() if line.startswith("#")]
    assert [line for line in comments if line not in (tmp_path / "mine.v2.yaml").read_text("utf-8")] == []


def test_what_cannot_be_written_is_told_and_leaves_all_as_it_was(tmp_path: Path):
    source = shipped_folder("profiles") / "reflect.v1.yaml"
    with pytest.raises(SettingsError, match="is no folder: make it first"):
        write_profile(source, tmp_path / "nowhere" / "mine.v1.yaml", WEIGHTS)
    out = tmp_path / "No Name.yaml"
    out.write_text("what somebody wrote")
    with pytest.raises(EvaluationError, match="cannot be written as") as refused:
        write_profile(source, out, WEIGHTS)
    assert f"{out}:3" in str(refused.value)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(out.name, "what somebody wrote")]
