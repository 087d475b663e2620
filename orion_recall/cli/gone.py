"""Commands and options that are gone, and what took their place: each is refused with that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_DRAWN = "`decisions sql` draws them: SELECT id, query FROM recall_decisions ORDER BY random() LIMIT 100"
_LIKE = "names are proposed from one likeness on; --into NAME merges others"
_PROBABILITY = "`eval run` writes the `probability` of each answer; its weights are shipped with the package"
_UNANSWERABLE = "queries with `none: true` are those that nothing answers, and `eval score` counts what they got"
_COMMANDS: Mapping[str, str] = {
    "eval ablate": "`eval sweep --set KEY=0` tries a profile without a part of the score, or without a source",
    "eval calibrate": _PROBABILITY,
    "eval reliability": _PROBABILITY,
    "eval unanswerable": _UNANSWERABLE,
    "eval review": "`decisions sql` lists decisions with their feedback, to judge questions from",
    "eval feedback": "`decisions replay` measures a profile by the feedback on logged queries",
    "eval worst": "`eval score --worst 10` lists the worst queries of a run",
    "eval systems": "`eval run --baseline like` (or bm25_decay, vector, rrf) and `eval score` measure each system",
    "eval successions": "successions are no longer recognised by rules",
    "decisions shadow": "`decisions compare` compares shadows and canaries",
    "decisions sample": _DRAWN,
    "decisions tail": "the console's first page follows the decisions, and `decisions list --since 5m` lists them",
    "memory search": "`memory list WORDS` searches",
    "memory extracted": "`memory show ID` has what was extracted",
    "memory reembed": "`memory rebuild index` embeds every memory with the configured model",
    "profiles diff": "`diff` compares what `profiles show` prints, and the console's page of a profile too",
    "graph import": "the graph is made from the record, which `memory backup` and `memory restore` carry",
    "graph stats": "`graph sparql` counts, and nodes.csv of `graph export` has the components",
}
# Of every command, or after the command whose words are before the option.
_OPTIONS: Mapping[str, str] = {
    "merge --all": "give --apply the ids of those that are to be merged",
    "merge --by": "names are proposed that are alike in spelling and meaning; --into NAME merges others",
    "merge --limit": "50 are shown, and --json has all",
    "merge --min-string": _LIKE,
    "merge --min-cosine": _LIKE,
    "dead --stores": "`dead --of stores` lists them",
    "list --sample": _DRAWN,
    "list --shadows": "`decisions sql` lists them: SELECT * FROM recall_trials",
    "show --hash": "`decisions sql` has the text: SELECT text FROM recall_profiles WHERE hash = 'HASH'",
    "--format": "the graph is exported as CSV; `graph sparql` gives rows of any pattern",
    "--without-evidence": _UNANSWERABLE,
    "--budgets": "recall@bundle is the recall within the token budget of the profile",
    "--plot": "plots are no longer drawn: --json has the numbers",
    "--out": "--json prints the whole report",
    "--against": "a profile is compared with the control, which had the same memories",
    "--beside": "plots are no longer drawn: `eval compare` compares two runs",
    "--junit": "the exit code is the verdict, and --json has every threshold",
    "--with-history": "`memory history ID` has the steps of a memory, and `memory backup` those of all",
    "--full": "`memory forget` rewrites every table, however large",
    "--restart": "every import begins anew: what is stored already is unchanged",
    "--extractor": "ORION_EXTRACTOR says what finds names and statements",
    "--csv": "--json has the rows",
    "--all-tenants": "`graph sparql` asks the graph of one tenant",
    "--markdown": "--json has the whole report",
    "--calls": "`eval run` tells the milliseconds of a profile or a baseline",
    "--sizes": "`make bench-scale` measures growth; `eval run` tells the milliseconds of a profile or a baseline",
}


def what_is_gone(arguments: Sequence[str]) -> str | None:
    """That the command, or an option of these arguments, is gone, and what took its place."""
    if told := _COMMANDS.get(name := " ".join(arguments[:2])):
        return f"there is no `{name}` any more: {told}"
    words = {word.partition("=")[0] for word in arguments}
    for name, told in _OPTIONS.items():
        if words.issuperset(name.split()):
            return f"there is no {f'`{name}`' if ' ' in name else name} any more: {told}"
    return None
