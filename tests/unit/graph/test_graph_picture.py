"""The page: what is in it, and that nothing gets out of its place. tests/browser draws it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from orion_recall.graph.exchange.picture import Subgraph, page, subgraph_around
from orion_recall.graph.vocabulary import entity_iri
from tests.stand_ins.graph import NOW, PEOPLE, TENANT, Said, sample_graph

HOSTILE = "</script><script>document.title='broken'</script><!-- \"'\\ \u2028 <b onclick=x> {x} $data &lt;"


def iri(name: str) -> str:
    return str(entity_iri(name))


async def around(*names: str, memories: Any = PEOPLE, max_nodes: int = 50, hops: int = 2) -> Subgraph:
    return await subgraph_around(
        sample_graph(memories), TENANT, [iri(name) for name in names], max_nodes=max_nodes, hops=hops
    )


class Elements(HTMLParser):
    """The elements with their attributes, and the text of script and style."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        named = f"{tag}#{found['id']}" if found.get("id") else tag
        self._inside = named if tag in ("script", "style", "title", "h1") else None

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data


def read(text: str) -> Elements:
    parser = Elements()
    parser.feed(text)
    parser.close()
    return parser


def data_of(text: str) -> dict[str, Any]:
    return json.loads(read(text).texts["script#graph"])


async def test_nodes_edges_and_evidence_are_in_the_page():
    data = data_of(page(await around("Ana"), title="Around Ana"))
    names = [node["name"] for node in data["nodes"]]
    assert sorted(names) == ["Ada", "Ana", "Bo", "Carl", "Fjord Labs", "Ida"]
    assert {node["name"]: node["kind"] for node in data["nodes"]}["Fjord Labs"] == "Organisation"
    (works,) = [edge for edge in data["edges"] if edge["name"] == "works at"]
    assert (names[works["from"]], names[works["to"]], works["weight"]) == ("Ida", "Fjord Labs", 2)
    assert works["memories"][0] == {"id": "m5", "text": "Ida still works at Fjord Labs.", "ts": NOW}
    assert data["cut"] is True


@pytest.mark.parametrize(
    ("names", "hops", "most"), [(("Fest",), 1, 2), (("Ana",), 2, 50), ((), 1, 50), (("Bergen",), 1, 3)]
)
async def test_a_name_is_of_one_kind_in_every_picture(names: tuple[str, ...], hops: int, most: int):
    said = (("Fest", "takes place at", "Bergen"), ("Ana", "lives in", "Bergen"), ("Ana", "visits", "Fest"))
    memories = [Said(id=f"m{n}", text="…", statements=(one,)) for n, one in enumerate(said)]
    part = await around(*names, memories=memories, max_nodes=most, hops=hops)
    kinds = {node.name: node.kind for node in part.nodes}
    assert kinds.items() <= {"Ana": "Person", "Bergen": "Place", "Fest": "Thing"}.items()
    assert len(kinds) >= 2


async def test_a_picture_is_bounded():
    many = [Said(id=f"m{n}", text="x" * 900, statements=((f"P{n}", "knows", "Hub"),)) for n in range(100)]
    part = await around("Hub", memories=many, max_nodes=10)
    assert (len(part.nodes), len(part.edges), part.cut) == (10, 9, True)
    assert {
        len(memory["text"]) for edge in data_of(page(part, title=""))["edges"] for memory in edge["memories"]
    } == {600}
    strongest = await around(memories=many, max_nodes=7)
    assert (len(strongest.nodes), strongest.cut) == (7, True)
    assert (await around("Ana", hops=1)).cut is True


async def test_the_page_loads_nothing_and_lets_nothing_in():
    text = page(await around(), title="All")
    found = read(text)
    (policy,) = [attributes["content"] for _, attributes in found.elements if "http-equiv" in attributes]
    for directive, element in (("script-src", "script"), ("style-src", "style")):
        wanted = b64encode(sha256(found.texts[element].encode()).digest()).decode()
        assert f"{directive} 'sha256-{wanted}'" in str(policy)
    assert str(policy).startswith("default-src 'none'; ") and "unsafe" not in str(policy)
    assert not [tag for tag, _ in found.elements if tag in ("link", "img", "iframe", "object", "embed", "base")]
    loading = ("src", "href", "style", "action", "srcset")
    assert not [
        name for _, attributes in found.elements for name in attributes if name in loading or name.startswith("on")
    ]
    assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttp|WebSocket|import\(|eval\(|innerHTML", text)


async def test_names_and_texts_stay_data():
    memories = [Said(id=HOSTILE, text=HOSTILE, statements=((HOSTILE, HOSTILE, "Ana"),))]
    plain = page(await around("Ana"), title="plain")
    hostile = page(await around("Ana", memories=memories), title=HOSTILE)
    found = read(hostile)
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in read(plain).elements]
    assert found.texts["title"] == found.texts["h1"] == HOSTILE
    data = data_of(hostile)
    assert HOSTILE in [node["name"] for node in data["nodes"]]
    assert data["edges"][0]["memories"][0]["id"] == HOSTILE
