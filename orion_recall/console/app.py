"""The console's application: its addresses, and what is shown where something goes wrong."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import cast

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from orion_recall.console.access import ConsoleRight
from orion_recall.console.ask import ask, ask_page
from orion_recall.console.decision import decision_page, explain, give_feedback, why_not_memory
from orion_recall.console.forms import Form, read_form
from orion_recall.console.graph import graph_page, graph_picture
from orion_recall.console.guard import Guard
from orion_recall.console.memories import delete_memory, memories_page, memory_page
from orion_recall.console.now import now_page, now_stream
from orion_recall.console.profiles import check_profile, profile_page, profiles_page
from orion_recall.console.rendering import HERE
from orion_recall.console.replays import replay_page, replays_page, stop_replay
from orion_recall.console.visit import Console, Handler, Visit, decision_path, guarded, sign_in_page
from orion_recall.errors import (
    ClientError,
    EngineError,
    InvalidMessage,
    ModelError,
    OrionError,
    RecordError,
    ReplyTimeout,
    SourceError,
)

log = logging.getLogger("orion_recall.console")

_STATUS: Mapping[type[OrionError], int] = {
    InvalidMessage: 400,
    ReplyTimeout: 504,
    ClientError: 503,
    RecordError: 503,
    SourceError: 503,
    EngineError: 503,
    ModelError: 503,
}


def console_app(console: Console, hosts: Collection[str]) -> ASGIApp:
    app = Starlette(
        routes=[
            _get("/", now_page),
            _get("/now/stream", now_stream),
            _get("/decisions/{decision_id}", decision_page),
            _post("/decisions/{decision_id}/feedback", give_feedback, needs="feedback"),
            _post("/decisions/{decision_id}/why-not", why_not_memory, needs="recall"),
            _post("/decisions/{decision_id}/explain", explain, needs="recall"),
            _get("/ask", ask_page, needs="recall"),
            _post("/ask", ask, needs="recall"),
            _get("/memories", memories_page),
            _get("/memory", memory_page),
            _post("/memory/delete", delete_memory, needs="delete"),
            _get("/graph", graph_page),
            _get("/graph/picture", graph_picture),
            _get("/profiles", profiles_page),
            _get("/profiles/{name}", profile_page),
            _post("/profiles/{name}", check_profile),
            _get("/replays", replays_page, needs="operate"),
            _post("/replays/stop", stop_replay, needs="operate"),
            _get("/replays/{name}", replay_page, needs="operate"),
            _get("/decisions", find_decision),
            Route("/sign-in", sign_in, methods=["GET", "POST"]),
            _post("/sign-out", sign_out),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        exception_handlers={HTTPException: _refused, OrionError: _failed, RedisError: _bus_away},
    )
    app.state.console = console
    return Guard(app, hosts)


async def find_decision(visit: Visit) -> Response:
    name = visit.form.text("id")
    if len(found := await visit.console.log.ids_starting(name, 2, tenant=visit.access.only_tenant)) == 1:
        name = found[0]
    if not name:
        raise HTTPException(400, "give an id")
    return visit.to(decision_path(name))


async def sign_in(request: Request) -> Response:
    """The page that asks for a token; with the right one a session begins."""
    console = _console(request)
    if console.tokens is None:
        return RedirectResponse("/", 303)
    if request.method != "POST":
        return sign_in_page(console, request)
    form = await read_form(request)
    access = console.tokens.holder(form.text("token"))
    target = form.text("target")
    target = target if is_own_path(target) else "/"
    if access is None:
        log.warning("a wrong token was given to the console")
        return sign_in_page(console, request, status=401, error="This token is not known.", target=target)
    response = RedirectResponse(target, 303)
    console.let_in(response, access, secure=request.url.scheme == "https")
    return response


async def sign_out(visit: Visit) -> Response:
    response = visit.to("/")
    response.delete_cookie(visit.console.cookie, httponly=True, samesite="strict")
    return response


def is_own_path(target: str) -> bool:
    """Whether a browser that is sent there stays on the console."""
    return target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()


def _get(path: str, handler: Handler, *, needs: ConsoleRight | None = None) -> Route:
    return Route(path, guarded(handler, needs=needs), methods=["GET"])


def _post(path: str, handler: Handler, *, needs: ConsoleRight | None = None) -> Route:
    return Route(path, guarded(handler, needs=needs), methods=["POST"])


async def _refused(request: Request, error: Exception) -> Response:
    refusal = cast("HTTPException", error)
    return _problem(request, refusal.status_code, refusal.detail)


async def _failed(request: Request, error: Exception) -> Response:
    kinds = [status for kind, status in _STATUS.items() if isinstance(error, kind)]
    return _problem(request, kinds[0] if kinds else 500, str(error))


async def _bus_away(request: Request, error: Exception) -> Response:
    return _problem(request, 503, f"the bus cannot be used: {error}")


def _problem(request: Request, status: int, why: str) -> Response:
    console = _console(request)
    access = console.access_of(request)
    if access is None:
        return sign_in_page(console, request, status=401)
    visit = Visit(request=request, console=console, access=access, form=Form())
    return visit.page("problem.html", status=status, why=why)


def _console(request: Request) -> Console:
    return cast("Console", request.app.state.console)
