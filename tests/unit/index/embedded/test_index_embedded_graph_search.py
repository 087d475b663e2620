from __future__ import annotations

from orion_recall.index.embedded.document_frequencies import graph_search


def test_few_are_scanned_and_the_more_the_more_are_asked_for() -> None:
    assert graph_search(16_000, 100_000, 100).exact
    assert not graph_search(17_000, 100_000, 100).exact
    assert graph_search(17_000, 100_000, 300).exact


def test_a_part_of_all_is_searched_through_neighbours_of_neighbours() -> None:
    params = graph_search(30_000, 100_000, 100)
    assert params.acorn is not None
    assert params.acorn.enable
    assert params.acorn.max_selectivity == 1.0
    assert params.hnsw_ef == 200


def test_of_nearly_all_fewer_are_scanned_because_the_plain_graph_costs_less() -> None:
    assert graph_search(9_000, 10_000, 300).exact
    assert not graph_search(11_000, 12_000, 300).exact
    assert graph_search(11_000, 12_000, 1_000).exact


def test_nearly_all_are_searched_in_the_plain_graph_with_more_candidates() -> None:
    params = graph_search(90_000, 100_000, 100)
    assert not params.exact
    assert params.acorn is None
    assert params.hnsw_ef == 500


def test_at_least_as_many_candidates_are_kept_as_are_asked_for() -> None:
    assert graph_search(90_000, 100_000, 1_000).hnsw_ef == 1_000
    assert graph_search(200_000, 1_000_000, 1_000).hnsw_ef == 1_000
