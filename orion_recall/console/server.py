"""Runs the console: its address and who may reach it, its pages, and what is shown where something goes wrong.

A page of another site can make a browser send requests to a loopback address under a name of its own (DNS
rebinding); such a request names that site as its host, and gets nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
from collections.abc import AsyncGenerator, Collection, Generator
from functools import partial
from typing import cast
from urllib.parse import urlsplit

import uvicorn
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from orion_recall import errors
from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.console import decision, memories, profiles
from orion_recall.console.access import ConsoleRight, Sessions, TokenFile
from orion_recall.console.rendering import HERE, decision_path, templates
from orion_recall.console.replay_process import Replaying
from orion_recall.console.visit import Console, Form, Handler, ReadStatus, Visit, guarded, read_form, sign_in_page
from orion_recall.postgres.pool import close_pool, open_pool
from orion_recall.settings import Settings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def answered_hosts(settings: Settings, *, has_tokens: bool) -> frozenset[str]:
    """The names that the console answers for; SettingsError for an address that it may not listen on."""
    host, names = settings.console_host, settings.console_names
    if not is_loopback(host) and not has_tokens:
        raise errors.SettingsError(
            f"the console listens on {host}, which others reach: ORION_CONSOLE_TOKENS must name a file of tokens "
            "(`orion-recall console --new-token NAME`); without it there is 127.0.0.1 alone"
        )
    if (address := _address(host)) is not None and address.is_unspecified and not names:
        raise errors.SettingsError(
            f"the console listens on {host}: ORION_CONSOLE_NAMES must say under which names browsers reach it"
        )
    return frozenset((*LOOPBACK_NAMES, host, *names))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


class Guard:
    """An application that answers only requests for its own hosts, and adds the headers that a response lacks."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        app = self._app
        if host_name(headers.get("host", "")) not in self._hosts:
            app = PlainTextResponse("This console does not answer for that host (ORION_CONSOLE_NAMES).\n", 421)
        elif scope["method"] not in ("GET", "HEAD") and not _is_own_page(headers):
            app = PlainTextResponse("This was sent by a page of another site.\n", 403)
        await app(scope, receive, send_with_headers)


def host_name(header: str) -> str | None:
    """The name in a Host header, without the port and in lower case; None where it is none."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    # Of what follows the name nothing may stand in a Host header.
    return parts.hostname if parts.netloc == header and "@" not in header else None


def _is_own_page(headers: Headers) -> bool:
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


log = logging.getLogger("orion_recall.console")

# Errors of what the console needs.
_AWAY = (errors.ClientError, errors.RecordError, errors.SourceError, errors.EngineError, errors.ModelError)


def console_app(console: Console, hosts: Collection[str]) -> ASGIApp:
    app = Starlette(
        routes=[
            _get("/", decision.now_page),
            _get("/now/stream", decision.now_stream),
            _get("/decisions/{decision_id}", decision.decision_page),
            _post("/decisions/{decision_id}/feedback", decision.give_feedback, needs="feedback"),
            _post("/decisions/{decision_id}/why-not", decision.why_not_memory, needs="recall"),
            _post("/decisions/{decision_id}/explain", decision.explain, needs="recall"),
            _get("/ask", decision.ask_page, needs="recall"),
            _post("/ask", decision.ask, needs="recall"),
            _get("/memories", memories.memories_page),
            _get("/memory", memories.memory_page),
            _post("/memory/delete", memories.delete_memory, needs="delete"),
            _get("/graph", memories.graph_page),
            _get("/graph/picture", memories.graph_picture),
            _get("/profiles", profiles.profiles_page),
            _get("/profiles/{name}", profiles.profile_page),
            _post("/profiles/{name}", profiles.check_profile),
            _get("/replays", profiles.replays_page, needs="operate"),
            _post("/replays/stop", profiles.stop_replay, needs="operate"),
            _get("/replays/{name}", profiles.replay_page, needs="operate"),
            _get("/decisions", find_decision),
            Route("/sign-in", sign_in, methods=["GET", "POST"]),
            _post("/sign-out", sign_out),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        exception_handlers=dict.fromkeys((HTTPException, errors.OrionError, RedisError), _failed),
    )
    app.state.console = console
    return Guard(app, hosts)


async def find_decision(visit: Visit) -> Response:
    name = visit.form.text("id")
    if len(found := await visit.console.log.ids_starting(name, 2, tenant=visit.access.only_tenant)) == 1:
        name = found[0]
    if not name:
        raise HTTPException(400, "give the id of a decision, or its beginning")
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
    console.let_in(response, console.sessions.cookie(access.key), secure=request.url.scheme == "https")
    return response


async def sign_out(visit: Visit) -> Response:
    response = visit.to("/")
    visit.console.sessions.end(visit.console.cookie_of(visit.request))
    response.delete_cookie(visit.console.cookie, httponly=True, samesite="strict")
    return response


def is_own_path(target: str) -> bool:
    """Whether a browser that is sent there stays on the console."""
    return target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()


def _get(path: str, handler: Handler, *, needs: ConsoleRight | None = None, method: str = "GET") -> Route:
    return Route(path, guarded(handler, needs=needs), methods=[method])


_post = partial(_get, method="POST")


async def _failed(request: Request, error: Exception) -> Response:
    match error:
        case HTTPException():
            status, why = error.status_code, error.detail
        case RedisError():
            status, why = 503, f"the bus cannot be used: {error}"
        case errors.InvalidMessage() | errors.ReplyTimeout():
            status, why = 400 if isinstance(error, errors.InvalidMessage) else 504, str(error)
        case _:
            status, why = 503 if isinstance(error, _AWAY) else 500, str(error)
    console = _console(request)
    access = console.access_of(request)
    if access is None:
        return sign_in_page(console, request, status=401)
    visit = Visit(request=request, console=console, access=access, form=Form())
    return visit.page("problem.html", status=status, why=why)


def _console(request: Request) -> Console:
    return cast("Console", request.app.state.console)


_STOP_S = 2
_BACKLOG = 128
# Far below the descriptors that a process may have: with `up`, the engines need theirs.
MOST_CONNECTIONS = 128
HEAD_S = 10.0
TAKEN_S = 20.0


class _Connection(H11Protocol):
    """A connection: it ends where no whole head of a request comes in time, or where there are too many.

    It also ends where what was written is not taken in time, and after the answer to a request that came with
    another one behind it: no browser does that.
    """

    _late: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # every byte that waits is heard of
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._expect_nothing()
            if not cycle.more_body and self.conn.trailing_data[0]:
                cycle.keep_alive = False
        elif self._late is None:
            self._expect_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = self.loop.call_later(TAKEN_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._untaken is not None:
            self._untaken.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self.resume_writing()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


@contextlib.asynccontextmanager
async def running_console(settings: Settings, read_status: ReadStatus) -> AsyncGenerator[str]:
    """The console while it takes requests; gives its address.

    Needs a bus and Postgres. SettingsError when it may not listen there, or the address is in use.
    """
    url, dsn = settings.bus_url, settings.dsn
    if url is None or dsn is None:
        raise errors.SettingsError(
            "the console needs a bus and Postgres: start `orion-recall up` on its folder (--data), or set "
            "ORION_REDIS_URL and ORION_POSTGRES_DSN"
        )
    tokens, hosts = _admitted(settings)
    async with contextlib.AsyncExitStack() as stack:
        listening = stack.enter_context(_listening(settings))
        port = int(listening.getsockname()[1])
        redis = await stack.enter_async_context(connect(url))
        client = RecallClient.connect(
            url, prefix=settings.prefix, service="orion-recall-console", max_query_bytes=settings.max_query_bytes
        )
        pool = await open_pool(dsn, name="console", min_size=0, max_size=4)
        stack.push_async_callback(close_pool, pool)
        replaying = Replaying(settings)
        stack.push_async_callback(replaying.close)
        console = Console(
            settings=settings,
            pool=pool,
            client=await stack.enter_async_context(client),
            redis=redis,
            read_status=read_status,
            templates=templates(),
            sessions=Sessions(),
            tokens=tokens,
            cookie=f"orion_console_{port}",
            stopping=asyncio.Event(),
            replaying=replaying,
        )
        await stack.enter_async_context(_serving(console_app(console, hosts), listening))
        stack.callback(console.stopping.set)
        host = settings.console_host
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def check_console(settings: Settings) -> None:
    """SettingsError where the console may not or cannot listen as the settings say; nothing stays open."""
    _admitted(settings)
    with _listening(settings):
        pass


def _admitted(settings: Settings) -> tuple[TokenFile | None, frozenset[str]]:
    tokens = TokenFile(settings.console_tokens) if settings.console_tokens is not None else None
    return tokens, answered_hosts(settings, has_tokens=tokens is not None)


@contextlib.contextmanager
def _listening(settings: Settings) -> Generator[socket.socket]:
    host, port = settings.console_host, settings.console_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # create_server adds the address in Python's own words.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        raise errors.SettingsError(
            f"the console cannot listen on {host}, port {port}: {why}. ORION_CONSOLE_PORT sets "
            "another port (0: a free one), ORION_CONSOLE_HOST another address; `orion-recall console` also takes "
            "--port and --host"
        ) from error
    with listening:
        yield listening


@contextlib.asynccontextmanager
async def _serving(app: ASGIApp, listening: socket.socket) -> AsyncGenerator[None]:
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        http=_Connection,
        server_header=False,
        timeout_graceful_shutdown=_STOP_S,
    )
    server = uvicorn.Server(config)
    # They are left to the program around it.
    server.capture_signals = contextlib.nullcontext  # pyright: ignore[reportAttributeAccessIssue]
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
