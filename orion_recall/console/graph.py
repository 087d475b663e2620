"""The page of the graph: which part of it to draw, and the picture that `orion-recall graph viz` makes."""

from __future__ import annotations

import asyncio

from starlette.responses import HTMLResponse, Response

from orion_recall.console.visit import Visit
from orion_recall.errors import SourceError
from orion_recall.graph.exchange.picture import page, page_policy, subgraph_around
from orion_recall.graph.stores.reader import GraphReader, open_graph_reader
from orion_recall.graph.tenant_graph import TenantGraph

_TIMEOUT_S = 20.0
_MOST_NODES = 400


async def graph_page(visit: Visit) -> Response:
    return _form(visit)


async def graph_picture(visit: Visit) -> Response:
    """The picture, as a page with a policy of its own; the form again where there is nothing to draw."""
    names = [one.strip() for one in visit.form.text("entities").split(",") if one.strip()]
    nodes = visit.form.number("nodes", least=2, most=_MOST_NODES) or 100
    hops = visit.form.number("hops", least=1, most=4) or 2
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            open_graph_reader(visit.console.settings, timeout_s=_TIMEOUT_S) as graph,
        ):
            found = await _entities(graph, visit.tenant, names)
            if unknown := [name for name in names if not found[name]]:
                return _form(visit, f"The graph has no entity named {', '.join(unknown)}.", 404)
            iris = list(dict.fromkeys(found[name][0] for name in names))
            part = await subgraph_around(graph, visit.tenant, iris, max_nodes=nodes, hops=hops)
    except TimeoutError:
        return _form(visit, "The picture took too long: ask for fewer entities.", 504)
    except SourceError as error:
        return _form(visit, f"The graph cannot be read: {error}", 503)
    if not part.nodes:
        return _form(visit, f"The graph of {visit.tenant} has nothing to draw yet.", 404)
    title = f"Around {', '.join(names)}" if names else f"The graph of {visit.tenant}"
    policy = f"{page_policy()}; frame-ancestors 'none'"
    return HTMLResponse(page(part, title=title), headers={"content-security-policy": policy})


async def _entities(graph: GraphReader, tenant: str, names: list[str]) -> dict[str, list[str]]:
    found = await TenantGraph(graph, tenant).named(names) if names else {}
    return {name: list(found.get(name, ())) for name in names}


def _form(visit: Visit, error: str = "", status: int = 200) -> Response:
    return visit.page("graph.html", status=status, form=visit.form, tenant=visit.tenant, error=error)
