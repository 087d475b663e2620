"""The CPU of each source and stage of a recall, as shares of one embedding; and the cost of ranking features.

    python -m tests.bench.sources [--sizes 10000,100000] [--questions 200] [--json FILE]

For every size: index, graph and record of synthetic memories, filled directly and kept under /tmp for the next run;
then recalls in this process, one at a time, through the service's own `recall()`. For each profile the CPU of every
stage; the graph source alone with each of its options; and reflect.v1 against the same profile without its added
ranking features (see `ranking_ablation`), alternating by question. Everything is CPU of this process, engine
threads included, in milliseconds and as the share of the CPU that one fp32 embedding of the same question took just
before.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
from collections.abc import Mapping, Sequence

from orion_recall.models.int8 import INT8_NAME, Int8Encoder
from orion_recall.models.onnx_encoder import Encoder, find_weights
from orion_recall.profile import Profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.settings import Settings
from tests.bench.command import finish, parser_of, say, seconds_so_far, sizes
from tests.bench.costs import Figure, added, stage_figures, whole_figure
from tests.bench.cpu_clock import GRAPH, STAGES
from tests.bench.fill_child import MODEL, WORDS
from tests.bench.filled_stores import FilledStores, open_filled
from tests.bench.measure import RestOfMachine
from tests.bench.ranking_ablation import before, graph_options, measured
from tests.bench.source_recalls import ClockedRun, Recaller
from tests.bench.source_report import ProfileFigures, SizeFigures, SourceCosts, as_json, print_report

PROFILES = ("assist.light.v1", "reflect.v1", "deep.graph.v1")
COMPARED, GRAPH_OPTIONS_OF = "reflect.v1", "deep.graph.v1"


async def measure(options: argparse.Namespace) -> SourceCosts:
    """One size after another."""
    profiles = {name: measured(loaded_profiles(None)[name].profile) for name in PROFILES}
    weights = find_weights(path=Settings.read().model_path)
    encoder = await asyncio.to_thread(lambda: Int8Encoder(weights))
    found: list[SizeFigures] = []
    for size in options.sizes:
        vectors = MODEL if size <= options.embedded else WORDS
        say(f"{size:,} memories, vectors of the {vectors}: stores")
        async with open_filled(size, vectors, fresh=options.fresh) as filled:
            found.append(await _measured(filled, profiles, encoder, options.questions))
    return SourceCosts(
        machine={
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "Python": platform.python_version(),
        },
        model=INT8_NAME,
        questions=options.questions,
        seconds=seconds_so_far(),
        sizes=found,
    )


async def _measured(
    filled: FilledStores, profiles: Mapping[str, Profile], encoder: Encoder, count: int
) -> SizeFigures:
    size, rest = f"{filled.size:,} memories", RestOfMachine()
    async with Recaller.open(filled, encoder) as recaller:
        queries = recaller.queries(count)
        runs: dict[str, ClockedRun] = {}
        for name, profile in profiles.items():
            say(f"{size}: stages of {name}")
            runs[name] = await recaller.clocked(queries, profile)
        say(f"{size}: {COMPARED} with and without what was added")
        mine = profiles[COMPARED]
        compared = await recaller.compared(queries, mine, before(mine))
        graph: list[Figure] = []
        chained = recaller.queries(count, with_chains=True)
        for told, option in graph_options(mine, profiles[GRAPH_OPTIONS_OF]).items():
            say(f"{size}: graph source, {told}")
            run = await recaller.clocked(chained, option)
            graph += stage_figures(run.asked, {GRAPH: told})
    units = [one.embedding_ms for one in compared]
    return SizeFigures(
        size=filled.size,
        vectors=filled.vectors,
        filled_s=filled.seconds,
        filled_cpu_s=filled.cpu_s,
        embedding=Figure.of("of a question", units, units),
        profiles=[
            ProfileFigures(
                profile=name,
                stages=[
                    *stage_figures(run.asked, {stage: stage for stage in STAGES}),
                    whole_figure(run.asked, "the recall, stage after stage"),
                ],
                postgres_ms=run.postgres_ms,
            )
            for name, run in runs.items()
        ],
        graph=graph,
        whole=[
            Figure.of(COMPARED, [one.with_ms for one in compared], units),
            Figure.of("the same without what was added", [one.without_ms for one in compared], units),
        ],
        added=added(compared, runs[COMPARED].asked),
        rest_busy=rest.busy_share(),
    )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default="10000,100000", help="memories, separated by commas")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument(
        "--embedded", type=int, default=10_000, help="up to so many memories go through the model; more do not"
    )
    parser.add_argument("--fresh", action="store_true", help="fill the stores anew, though they were kept")
    read = parser.parse_args(arguments)
    if read.questions < 2:
        parser.error("at least two questions")
    return read


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    finish(measure(options), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
