"""`orion-recall decisions`: the app of its commands, one module each."""

from __future__ import annotations

import typer

from orion_recall.cli.decisions.compare import compare_profiles
from orion_recall.cli.decisions.explain import explain_logged_decision
from orion_recall.cli.decisions.list import list_decisions
from orion_recall.cli.decisions.purge import purge_decisions
from orion_recall.cli.decisions.replay import replay_decisions
from orion_recall.cli.decisions.show import show_decision
from orion_recall.cli.decisions.sql import run_sql
from orion_recall.cli.decisions.tail import tail_decisions
from orion_recall.cli.gone import add_gone

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look into the decision log.

    It has one row for each query: what was found, kept and dropped, why, by which source, in how many ms, under
    which profile. The table is recall_decisions; its views are recall_queries, recall_selected,
    recall_candidates, recall_layers, recall_stage_ms, recall_trials, recall_follow_ups, recall_by_profile_hour,
    recall_by_source, recall_dropped, recall_memory_usage and recall_feedback_by_profile; recall_texts and
    recall_never_selected are for orion_reader; the profiles behind the hashes are in recall_profiles.

    Example: `orion-recall decisions sql "SELECT profile, count(*) FROM recall_decisions GROUP BY 1"`
    """,
)

app.command("list")(list_decisions)
app.command("tail")(tail_decisions)
app.command("show")(show_decision)
app.command("explain")(explain_logged_decision)
app.command("sql")(run_sql)
app.command("replay")(replay_decisions)
app.command("compare")(compare_profiles)
app.command("purge")(purge_decisions)
add_gone(app, "decisions")
