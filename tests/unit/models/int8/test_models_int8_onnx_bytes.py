"""What is written, as ONNX Runtime reads it."""

from __future__ import annotations

import numpy as np
import pytest

from orion_recall.models.int8 import OnnxGraph
from orion_recall.models.onnx_encoder import Vectors, open_session


def written() -> bytes:
    graph = OnnxGraph()
    graph.input("rows", (1, "tokens", 2))
    doubled = graph.node("Mul", ["rows", graph.tensor("two", np.array([2, 2], dtype=np.float32))], ["doubled"])
    leaky = graph.node("LeakyRelu", [doubled], ["leaky"], alpha=0.5)
    return graph.model("small", graph.node("Softmax", [leaky], ["shares"], axis=2), (1, "tokens", 2))


def test_a_graph_is_run_as_it_was_written():
    session = open_session(written())
    (found,) = session.get_inputs()
    assert (found.name, found.shape) == ("rows", [1, "tokens", 2])
    rows: Vectors = np.array([[[0.5, -1.0], [3.0, 3.0]]], dtype=np.float32)
    (shares,) = session.run(["shares"], {"rows": rows})
    first = np.exp([1.0, -1.0])
    np.testing.assert_allclose(shares[0], [first / first.sum(), [0.5, 0.5]], rtol=1e-6)


def test_the_same_graph_is_the_same_bytes():
    assert written() == written()


def test_long_numbers_and_names_are_written_whole():
    graph = OnnxGraph()
    graph.input("rows", (1, "tokens", 300))
    name = "n" * 300
    graph.tensor(name, np.arange(300, dtype=np.float32))
    session = open_session(graph.model("long", graph.node("Add", ["rows", name], ["sum"]), (1, "tokens", 300)))
    (found,) = session.run(["sum"], {"rows": np.ones((1, 1, 300), dtype=np.float32)})
    assert found[0, 0].tolist() == pytest.approx([one + 1 for one in range(300)])
