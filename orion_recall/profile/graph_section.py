"""The section `graph` of a profile: the walks from the names of a question."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from orion_recall.profile.sections import CONFIG, Share
from orion_recall.values import GraphMethod


class GraphWalk(BaseModel):
    """How far the graph source walks from the entities of the query."""

    model_config = CONFIG

    arm: GraphMethod = Field(
        default="neighbourhood",
        description="How memories are ranked by their nearness to the query's entities: ways in the "
        "`neighbourhood`, spreading `activation`, forward `push` along meta-paths, or `pagerank` biased to them.",
    )
    hops: int = Field(default=1, ge=1, le=2, description="How many links away from a query's entity the walk goes.")
    max_entities: int = Field(default=4, ge=1, le=16, description="How many entities of the query start a walk.")
    max_statements: int = Field(
        default=48, ge=1, le=500, description="How many statements the walk reads before it stops."
    )
    similar_entities: int = Field(
        default=0,
        ge=0,
        le=16,
        description="How many more entities start a walk whose names are close to the query in meaning.",
    )
    paths: bool = Field(
        default=False,
        description="Whether a possessive chain in the question (Ana's sister's employer) is gone along in the "
        "graph; the path is the evidence.",
    )
    damping: Share = Field(
        default=0.6,
        description="The share of its score that a node passes on: the damping of `pagerank`, the decay of "
        "`activation`.",
    )
    rounds: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="The rounds of `pagerank` (null: 20) or `activation` (null: 3).",
    )
    traverse: tuple[Literal["who", "related", "temporal"], ...] = Field(
        default=(),
        strict=False,
        description="Further questions that are answered along the graph: `who` is X (what X is stated to be), how "
        "A is `related` to B (a path), and what is told of a named time (`temporal`: whose time window fits).",
    )
    path_hops: int = Field(default=4, ge=1, le=5, description="How many edges a path has at most.")
    path_expansions: int = Field(
        default=60, ge=1, le=1000, description="How many entities a path search expands before it stops."
    )
    path_time: Share = Field(
        default=0.5, gt=0, description="The share of `source_timeout_ms` that the searches for paths may take."
    )
