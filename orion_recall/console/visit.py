"""A visit: one request of a visitor whose access is known, its form, and the parts of the console for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl

from jinja2 import Environment
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from orion_recall.bus.group_reader import decoded
from orion_recall.bus.heartbeat import read_heartbeats
from orion_recall.client import RecallClient
from orion_recall.console.access import LIFETIME_S, LOCAL, Access, ConsoleRight, Sessions, TokenFile
from orion_recall.console.replay_process import Replaying
from orion_recall.decisions.log import DecisionLog
from orion_recall.postgres.pool import Pool
from orion_recall.settings import RECALL_GROUP, Settings

MOST_BYTES = 1 << 20
_MOST_FIELDS = 500
_BODY_S = 30
_TYPE = "application/x-www-form-urlencoded"


class Form(ImmutableMultiDict[str, str]):
    """The fields of a form or of an address, each with all its values (`getlist`)."""

    def text(self, name: str, default: str = "") -> str:
        return self.get(name, default).strip()

    def raw(self, name: str) -> str:
        """The value as it was sent, with line ends as in files."""
        return self.get(name, "").replace("\r\n", "\n").replace("\r", "\n")

    def number(self, name: str, *, least: int, most: int) -> int | None:
        text = self.text(name)
        return max(least, min(most, int(text))) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def form_of(encoded: str) -> Form:
    try:
        return Form(parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise HTTPException(400, "the form has too many fields") from error


async def read_form(request: Request) -> Form:
    """The form that a request brings; HTTPException for another body, and for one that is too large or late."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise HTTPException(415, "this takes a form")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise HTTPException(413, f"the form is larger than {MOST_BYTES} bytes")
    except TimeoutError as error:
        raise HTTPException(408, f"the form did not come within {_BODY_S} seconds") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the form was cut off") from error
    return form_of(body.decode("utf-8", "replace"))


Status = Mapping[str, Any]
ReadStatus = Callable[[Settings], Awaitable[Status]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """What the pages are made of. `read_status` gives what `orion-recall status --json` prints.

    `stopping` is set when the console ends: live lists end then, too.
    """

    settings: Settings
    pool: Pool
    client: RecallClient
    redis: Redis
    read_status: ReadStatus
    templates: Environment
    sessions: Sessions
    tokens: TokenFile | None
    cookie: str
    stopping: asyncio.Event
    replaying: Replaying

    @property
    def log(self) -> DecisionLog:
        return DecisionLog(self.pool)

    async def profiles_in_use(self) -> Sequence[str]:
        """The profiles of the running workers; none where the bus is away: a page is of use without them."""
        try:
            consumers = await self.redis.xinfo_consumers(self.settings.query_stream, RECALL_GROUP)
            keys = [self.settings.worker_key(decoded(one["name"])) for one in consumers]
            heartbeats = await read_heartbeats(self.redis, keys)
        except RedisError:
            return ()
        told = [one.get("profiles", "").split(",") for one in heartbeats if one is not None]
        return sorted({name for names in told for name in names if name})

    def access_of(self, request: Request) -> Access | None:
        """Who comes; None for somebody who must sign in first."""
        if self.tokens is None:
            return LOCAL
        key = self.session_of(request)
        return None if key is None else self.tokens.of_key(key)

    def session_of(self, request: Request) -> str | None:
        """The key of the session that the browser has; None without one."""
        return self.sessions.key_of(self.cookie_of(request))

    def cookie_of(self, request: Request) -> str:
        return request.cookies.get(self.cookie, "")

    def let_in(self, response: Response, cookie: str, *, secure: bool) -> None:
        response.set_cookie(
            self.cookie,
            cookie,
            max_age=LIFETIME_S,
            httponly=True,
            samesite="strict",
            secure=secure,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request. `form` is what was sent: the body of a POST, else the query of the address."""

    request: Request
    console: Console
    access: Access
    form: Form

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    @property
    def only_tenant(self) -> str | None:
        """The visitor's only tenant, else the one that is asked for; None for all of them.

        404 where the visitor asks for another one than theirs.
        """
        only, wanted = self.access.only_tenant, self.form.text("tenant")
        if only is not None and wanted not in ("", only):
            raise HTTPException(404, "there is no such tenant here")
        return only or wanted or None

    @property
    def tenant(self) -> str:
        """The one tenant that the page is about: `only_tenant`, else the default one."""
        return self.only_tenant or self.console.settings.default_tenant

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page of the console; a browser that has no session gets one."""
        console = self.console
        is_new = console.session_of(self.request) is None
        cookie = console.sessions.cookie(self.access.key) if is_new else console.cookie_of(self.request)
        html = console.templates.get_template(template).render(
            access=self.access,
            form_token=console.sessions.form_token(cookie),
            here=self.request.url.path,
            form=self.form,
            has_tokens=console.tokens is not None,
            **values,
        )
        response = HTMLResponse(html, status)
        if is_new:
            console.let_in(response, cookie, secure=self.request.url.scheme == "https")
        return response

    def to(self, path: str) -> Response:
        return RedirectResponse(path, 303)


Handler = Callable[[Visit], Awaitable[Response]]


def guarded(handler: Handler, *, needs: ConsoleRight | None = None) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that lets in whom the handler is for: a visitor with the right, and only forms of our own."""

    async def endpoint(request: Request) -> Response:
        console = cast("Console", request.app.state.console)
        access = console.access_of(request)
        if access is None:
            return sign_in_page(console, request, status=401)
        form = form_of(request.url.query)
        if request.method == "POST":
            form = await read_form(request)
            cookie, is_known = console.cookie_of(request), console.session_of(request) == access.key
            if not is_known or not console.sessions.is_form_token(cookie, form.text("form_token")):
                raise HTTPException(403, "this form is not one of this console, or too old: go back and reload it")
        if needs is not None and not access.may(needs):
            raise HTTPException(403, f"your token does not have the right to {needs}")
        return await handler(Visit(request=request, console=console, access=access, form=form))

    return endpoint


def sign_in_page(
    console: Console, request: Request, *, status: int = 200, error: str = "", target: str | None = None
) -> Response:
    """The page that asks for a token, and then leads to where the visitor wanted to go."""
    if target is None:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        target = target if request.method == "GET" and not target.startswith("/sign-in") else "/"
    return HTMLResponse(console.templates.get_template("sign_in.html").render(target=target, error=error), status)
