"""The console over a running service: its pages, who is let in, and what is refused."""

from __future__ import annotations

import html
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

import httpx
import pytest
from console_visits import console, decided, form_token, is_logged
from executor import until
from serving import caught_up

from orion_recall.cli.serving.status import read_status
from orion_recall.client import RecallClient
from orion_recall.console.access import new_token, token_hash
from orion_recall.console.server import running_console
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.record.successions import by_person
from orion_recall.postgres.pool import Connection, close_pool, open_pool
from orion_recall.postgres.schema import migrate
from orion_recall.serving.service import Service
from orion_recall.settings import Settings

pytestmark = pytest.mark.slow

HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</textarea></pre></template><b>bold</b>",
    "{{ 7321 * 9173 }} {% raw %} ${7321*9173} #{7321*9173}",
    "javascript:alert(1)",
    "\u202egnp.exe \u2066isolated",
    "&lt;b&gt; &amp;amp;",
)


@pytest.fixture
async def browser(service: Service) -> AsyncGenerator[httpx.AsyncClient]:
    async with console(service) as opened:
        yield opened


@pytest.mark.parametrize(
    "path",
    "/ /?window=week /ask /memories /memories?words=crane /memory?tenant=default&id=m-crane /graph /profiles "
    "/profiles/reflect.v1 /replays "
    "/static/console.css /static/live.js /static/profile.js /static/replays.js /static/sent.js".split(),
)
async def test_every_page_answers_with_headers_that_keep_strangers_out(
    browser: httpx.AsyncClient, path: str
) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers


async def test_a_session_is_kept_from_scripts_and_from_other_sites(browser: httpx.AsyncClient) -> None:
    cookie = (await browser.get("/")).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "set-cookie" not in (await browser.get("/")).headers


async def test_a_host_of_a_stranger_gets_nothing(browser: httpx.AsyncClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example"):
        answer = await browser.get("/", headers={"host": host})
        assert answer.status_code in (400, 421), host
        assert "<html" not in answer.text
    assert (await browser.get("/", headers={"host": "localhost:1234"})).status_code == 200


async def test_a_form_without_its_token_or_from_another_site_is_refused(browser: httpx.AsyncClient) -> None:
    token = form_token((await browser.get("/ask")).text)
    question = {"query": "What is wrong with the crane?"}
    assert (await browser.post("/ask", data=question)).status_code == 403
    assert (await browser.post("/ask", data=question | {"form_token": "0" * 64})).status_code == 403
    from_elsewhere = await browser.post(
        "/ask", data=question | {"form_token": token}, headers={"origin": "http://evil.example"}
    )
    assert from_elsewhere.status_code == 403
    async with httpx.AsyncClient(base_url=browser.base_url) as stranger:
        without_session = await stranger.post("/ask", data=question | {"form_token": token})
    assert without_session.status_code == 403
    as_json = await browser.post("/ask", json=question | {"form_token": token})
    assert as_json.status_code == 415
    assert (await browser.post("/ask", data=question | {"form_token": token})).status_code == 200


async def test_a_question_is_answered_under_a_profile(browser: httpx.AsyncClient) -> None:
    form = {"form_token": form_token((await browser.get("/ask")).text), "query": "What is wrong with the crane?"}
    page = (await browser.post("/ask", data=form | {"profile": "assist.light.v1"})).text
    assert "The harbour crane needs a new gearbox by Friday" in page
    assert page.count(">the decision</a>") == 1
    nothing = await browser.post("/ask", data=form | {"query": "  "})
    assert (nothing.status_code, "Write a question first." in nothing.text) == (400, True)
    for k in ("0", "101", "-1", "many"):
        refused = await browser.post("/ask", data=form | {"k": k})
        assert (refused.status_code, "a whole number from 1 to 100." in refused.text) == (400, True), k
    assert re.search(r"</span> · 1 item · \d+ tokens?\b", (await browser.post("/ask", data=form | {"k": "1"})).text)


async def test_a_decision_has_a_page_with_the_sum_of_each_score_and_takes_feedback(
    browser: httpx.AsyncClient, service: Service, client: RecallClient, service_database: Connection, tenant: str
) -> None:
    receipt = await client.store(
        [{"id": "m-valve", "text": "The red valve leaks.", "tenant": tenant, "speaker": "Ida"}]
    )
    await caught_up(service, receipt.position or 0)
    name = await decided(service_database, client, "Which valve leaks?", tenant=tenant)
    page = await browser.get(f"/decisions/{name}")
    assert page.status_code == 200
    assert "The red valve leaks." in page.text
    shares = [float(one) for one in re.findall(r'</td>\s*<td class="number">(\d\.\d{3})</td></tr>', page.text)]
    score = re.search(r"Score (\d\.\d{3})", page.text)
    assert score
    assert sum(shares[:-1]) == pytest.approx(float(score[1]), abs=0.005)
    given = await browser.post(
        f"/decisions/{name}/feedback", data={"form_token": form_token(page.text), "used": "m-valve"}
    )
    assert given.status_code == 303

    async def is_shown() -> bool:
        return "said so far: 1 of use, 0 wrong" in (await browser.get(f"/decisions/{name}")).text

    await until(is_shown, "the feedback on the page")
    again = await browser.post(
        "/ask", data={"form_token": form_token(page.text), "again": name, "query": "Which valve leaks?"}
    )
    assert "The red valve leaks." in again.text


async def test_a_decision_says_why_a_memory_is_not_in_it_and_explains_itself(
    browser: httpx.AsyncClient, service: Service, client: RecallClient, service_database: Connection, tenant: str
) -> None:
    memories = [{"id": f"m-{n}", "text": f"The red valve number {n} leaks.", "tenant": tenant} for n in range(4)]
    receipt = await client.store(memories)
    await caught_up(service, receipt.position or 0)
    name = await decided(service_database, client, "Which red valve leaks?", tenant=tenant, k=1)
    page = (await browser.get(f"/decisions/{name}")).text
    selected = await service_database.fetchval(
        "SELECT selected_ids ->> 0 FROM orion_recall.recall_decisions WHERE id = $1", name
    )
    missing = next(one["id"] for one in memories if one["id"] != selected)
    form = {"form_token": form_token(page)}
    told = (await browser.post(f"/decisions/{name}/why-not", data=form | {"memory": missing})).text
    assert f"<bdi>{missing}</bdi>: " in told
    assert "the bundle was full" in told.lower() or "nearly the same" in told.lower()
    kept = (await browser.post(f"/decisions/{name}/why-not", data=form | {"memory": selected})).text
    assert "it is first in the answer" in kept
    unknown = (await browser.post(f"/decisions/{name}/why-not", data=form | {"memory": "m-<b>nobody"})).text
    assert "There is no memory <bdi>m-&lt;b&gt;nobody</bdi>" in unknown
    assert (await browser.post(f"/decisions/{name}/why-not", data=form)).status_code == 400
    explained = (await browser.post(f"/decisions/{name}/explain", data=form)).text
    assert "Candidates that were left out, best first" in explained
    assert f"{selected} is first with" in explained


def lines_of(page: str) -> list[str]:
    """The lines that a decision's page shows as those of the executor."""
    found = re.findall(r'<pre class="line" tabindex="0">(?:<bdi>)?(.*?)(?:</bdi>)?</pre>', page, re.DOTALL)
    return [html.unescape(line) for line in found]


LONG = "The pump of the slip was looked at by the county. " * 30
AS_SENT = "These are the lines as they were sent."


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("What about the pump?", {}),
        ("What about the pump?", {"max_tokens": 40}),
        ("What about the pump?", {"max_tokens": 20, "k": 1}),
        ("Who wants pizza on Friday?", {"no_answer": False}),
        ("What is the capital of Mongolia?", {}),
    ],
)
async def test_the_lines_of_a_decision_are_those_that_were_sent_each_with_its_reason(
    browser: httpx.AsyncClient, service: Service, client: RecallClient, service_database: Connection, tenant: str,
    question: str, options: dict[str, object],
) -> None:  # fmt: skip
    texts = ("I want pizza on Friday.", "I want pizza on Friday.", f"{LONG} It leaks <b>badly</b>.", "Ask Ida.")
    memories = [
        {"id": f"m-{n}", "text": text, "speaker": f"S{n}", "tenant": tenant} for n, text in enumerate(texts)
    ]
    receipt = await client.store(memories)
    await caught_up(service, receipt.position or 0)
    reply = await client.recall(question, options={"tenant": tenant, **options})
    name = reply.bundle.stats.decision_id or ""
    await is_logged(service_database, name)
    page = (await browser.get(f"/decisions/{name}")).text
    items = [item.id for item in reply.bundle.items]
    assert items
    for item in items:
        assert f"<bdi>{item} is " in page, "why it is there is known at once"
    assert lines_of(page) == []
    assert 'id="lines"' in page
    shown = (await browser.post(f"/decisions/{name}/explain", data={"form_token": form_token(page)})).text
    assert lines_of(shown) == reply.bundle.rendered.split("\n")
    assert AS_SENT in shown
    assert 'id="lines"' not in shown
    changed = await client.update([{"id": items[0], "text": "Something else altogether."}], tenant=tenant)
    await caught_up(service, changed.position or 0)
    other = (await browser.post(f"/decisions/{name}/explain", data={"form_token": form_token(page)})).text
    assert AS_SENT not in other
    assert "may not be those that were sent" in other


async def test_where_no_line_was_sent_or_none_can_be_made_anew_that_is_said(
    browser: httpx.AsyncClient, client: RecallClient, service_database: Connection, tenant: str
) -> None:
    greeting = await decided(service_database, client, "hello", tenant=tenant)
    assert "An empty text: it is a greeting and asks nothing." in (await browser.get(f"/decisions/{greeting}")).text
    nothing = await decided(service_database, client, "Who moved?", tenant=tenant)
    assert (
        "An empty text: nothing was found that may be shown." in (await browser.get(f"/decisions/{nothing}")).text
    )
    asked = await decided(service_database, client, "What is wrong with the crane?")
    statement = "UPDATE orion_recall.recall_decisions SET not_replayable = $2 WHERE id = $1"
    await service_database.execute(statement, asked, "query text is not kept (ORION_QUERY_TEXT=hash)")
    page = (await browser.get(f"/decisions/{asked}")).text
    assert "cannot be shown: query text is not kept (ORION_QUERY_TEXT=hash). These are the memories as they" in page
    assert 'id="lines"' not in page
    assert " is first with " in page
    refused = (await browser.post(f"/decisions/{asked}/explain", data={"form_token": form_token(page)})).text
    assert lines_of(refused) == []
    await service_database.execute(
        "UPDATE orion_recall.recall_decisions SET outcome = 'refused' WHERE id = $1", asked
    )
    page = (await browser.get(f"/decisions/{asked}")).text
    assert "An empty text; and the error" in page
    assert "What it would have got:" in page


async def test_now_lists_what_is_chosen_and_leads_to_older_ones(
    browser: httpx.AsyncClient, client: RecallClient, service_database: Connection, tenant: str
) -> None:
    names = [await decided(service_database, client, f"Is crane {n} well?", tenant=tenant) for n in range(27)]
    reply = await client.recall(
        "hello", verb="greet & <wave>", profile="assist.light.v1", options={"tenant": tenant}
    )
    greeting = reply.bundle.stats.decision_id or ""
    await is_logged(service_database, greeting)

    def listed(page: str) -> list[str]:
        return re.findall(r'<tr id="d-([^"]+)">', page)

    first = (await browser.get(f"/?{urlencode({'tenant': tenant})}")).text
    assert listed(first) == [greeting, *names[:2:-1]]
    assert "/static/live.js" in first
    older = html.unescape(re.findall(r'<a href="([^"]+)" rel="next">', first)[0])
    second = (await browser.get(older)).text
    assert listed(second) == names[2::-1]
    assert "/static/live.js" not in second
    assert 'rel="next"' not in second
    for chosen in ({"verb": "greet & <wave>"}, {"profile": "assist.light.v1"}, {"outcome": "empty"}):
        page = (await browser.get(f"/?{urlencode({'tenant': tenant, **chosen})}")).text
        assert greeting in listed(page), chosen
        assert "outcome" in chosen or listed(page) == [greeting]
    none = await browser.get(f"/?{urlencode({'tenant': tenant, 'verb': 'nobody'})}")
    assert "There is no such decision." in none.text
    wanted = urlencode({"tenant": tenant, "verb": "greet & <wave>", "after": "2020-01-01T00:00:00+00:00"})
    async with browser.stream("GET", f"/now/stream?{wanted}") as stream:
        rows = "".join([line async for line in _until_rows(stream)])
    assert listed(rows) == [greeting]
    assert (await browser.get("/?before=nonsense")).status_code == 400


async def test_texts_of_memories_and_questions_are_shown_and_never_run(
    browser: httpx.AsyncClient, service: Service, client: RecallClient, service_database: Connection, tenant: str
) -> None:
    memories = [
        {"id": f"m-{n} {text}", "text": f"{text} says the pump", "speaker": text, "tags": [text], "tenant": tenant}
        for n, text in enumerate(HOSTILE)
    ]
    receipt = await client.store(memories)
    assert receipt.rejected == 0, receipt
    await caught_up(service, receipt.position or 0)
    name = await decided(service_database, client, f"{' '.join(HOSTILE)} the pump?", tenant=tenant)
    searched = f"/memories?{urlencode({'tenant': tenant, 'words': HOSTILE[0]})}"
    single = f"/memory?{urlencode({'tenant': tenant, 'id': memories[0]['id']})}"
    wrong = f"/memories?{urlencode({'tenant': HOSTILE[2], 'words': HOSTILE[0]})}"
    paths = ("/", f"/decisions/{name}", searched, single, wrong, f"/graph?entities={quote(HOSTILE[2])}")
    pages = [(await browser.get(path)).text for path in paths]
    form = {"form_token": form_token(pages[1]), "query": " ".join(HOSTILE), "tenant": tenant}
    pages.append((await browser.post("/ask", data=form)).text)
    for page in pages:
        tags = re.findall(r"<(\w+)([^>]*)>", page)
        assert {tag for tag, _ in tags}.isdisjoint({"img", "b", "iframe"})
        assert not any(re.search(r"\son\w+\s*=", re.sub(r'"[^"]*"', '""', rest)) for _, rest in tags)
        assert re.findall(r"<script[^>]*>", page) in (
            [],
            *([f'<script src="/static/{name}.js" defer>'] for name in ("live", "sent")),
        )
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", page)
        assert "67155533" not in page  # the product: no id, time or count of a page is equal to it
    assert "&lt;script&gt;document.title=" in pages[1]
    assert "{{ 7321 * 9173 }}" in pages[1]


async def _until_rows(stream: httpx.Response) -> AsyncGenerator[str]:
    """The lines of the first events that have rows."""
    has_rows = False
    async for line in stream.aiter_lines():
        has_rows = has_rows or line.startswith("data:")
        if has_rows and not line.startswith("data:") and line:
            return
        yield line


async def test_live_decisions_come_as_rows_of_the_list(
    browser: httpx.AsyncClient, client: RecallClient, service_database: Connection
) -> None:
    async with browser.stream("GET", "/now/stream") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = await decided(service_database, client, "Is the <b>crane</b> well?")
        async for line in stream.aiter_lines():
            if f"d-{name}" in line:
                assert line.startswith('data: <tr id="d-')
                assert "&lt;b&gt;crane&lt;/b&gt;" in line
                break
    for after in ("nonsense", "0001-01-01T00:00:00+14:00"):
        async with browser.stream("GET", f"/now/stream?{urlencode({'after': after})}") as stream:
            first = [line async for line in _until_rows(stream)]
            assert any(f"d-{name}" in line for line in first), after


async def test_a_memory_is_deleted_only_as_the_form_shows_it(
    browser: httpx.AsyncClient, service: Service, client: RecallClient, tenant: str
) -> None:
    name = "m/1?x=1&y=#z"
    receipt = await client.store([{"id": name, "text": "The lamp is red.", "tags": ["old"], "tenant": tenant}])
    receipt = await client.update([{"id": name, "text": "The lamp is blue.", "tags": ["<b>"]}], tenant=tenant)
    await caught_up(service, receipt.position or 0)
    address = f"/memory?{urlencode({'tenant': tenant, 'id': name})}"
    page = (await browser.get(address)).text
    assert "<del><bdi>The lamp is red.</bdi></del> <ins><bdi>The lamp is blue.</bdi></ins>" in page
    assert "<del><bdi>old</bdi></del> <ins><bdi>&lt;b&gt;</bdi></ins>" in page
    assert "0 times; feedback" in page
    form = {"form_token": form_token(page), "tenant": tenant, "id": name, "version": "2"}
    unsure = await browser.post("/memory/delete", data=form)
    assert (unsure.status_code, "say that you are sure" in unsure.text) == (400, True)
    late = await browser.post("/memory/delete", data=form | {"sure": "yes", "version": "1"})
    assert (late.status_code, "changed meanwhile" in late.text) == (409, True)
    assert "The lamp is blue." in (await browser.get(address)).text
    deleted = await browser.post("/memory/delete", data=form | {"sure": "yes", "reason": "a test"})
    assert deleted.status_code == 303
    page = (await browser.get(deleted.headers["location"])).text
    assert "Deleted at" in page
    assert "a test" in page
    assert 'action="/memory/delete"' not in page


async def test_a_memory_says_what_it_succeeds_and_how_that_is_undone(
    browser: httpx.AsyncClient, service: Service, client: RecallClient, tenant: str
) -> None:
    memories = [
        {"id": name, "text": f"The door code is {name}.", "tenant": tenant} for name in ("m-old", "m-<new>")
    ]
    receipt = await client.store(memories)
    await caught_up(service, receipt.position or 0)
    pool = await open_pool(service.settings.dsn or "", name="test", min_size=0, max_size=1)
    try:
        for undo, told in ((False, ""), (True, "undone: ")):
            await by_person(pool, tenant, "m-<new>", "m-old", undo=undo)
            old, new = [
                (await browser.get(f"/memory?{urlencode({'tenant': tenant, 'id': name})}")).text
                for name in ("m-old", "m-<new>")
            ]
            assert f"<li>{told}it succeeds <a href=" in new
            assert re.search(rf"<li>{told}<a [^>]+><bdi>m-&lt;new&gt;</bdi></a> succeeds it", old)
            assert "memory succeeds NEWER OLDER --undo" in new
    finally:
        await close_pool(pool)


async def test_a_profile_is_checked_and_compared_and_saved_only_where_that_is_allowed(
    browser: httpx.AsyncClient, service: Service, tmp_path: Path
) -> None:
    page = (await browser.get("/profiles/reflect.v1")).text
    text = html.unescape(page.partition('spellcheck="false">\n')[2].partition("</textarea>")[0])
    assert text == ((service.settings.profiles_dir or tmp_path) / "reflect.v1.yaml").read_text("utf-8")
    form = {"form_token": form_token(page), "before": sha256(text.encode()).hexdigest(), "action": "check"}
    edited = text.replace("max_total_items: 12", "max_total_items: 9", 1)
    checked = (await browser.post("/profiles/reflect.v1", data=form | {"text": edited})).text
    assert "It can be used." in checked
    assert "<del>12</del></td><td><ins>9</ins>" in checked
    wrong = (await browser.post("/profiles/reflect.v1", data=form | {"text": f"{text}max_totl_items: 3\n"})).text
    assert "It can be used." not in wrong
    assert "max_totl_items" in wrong
    downloaded = await browser.post("/profiles/reflect.v1", data=form | {"text": edited, "action": "download"})
    assert downloaded.text == edited
    assert "attachment" in downloaded.headers["content-disposition"]
    saving = form | {"text": edited, "action": "save"}
    assert (await browser.post("/profiles/reflect.v1", data=saving)).status_code == 403
    for name in ("nothing", "..%2f..%2fetc%2fpasswd", ".hidden", "reflect.v1.yaml"):
        assert (await browser.get(f"/profiles/{name}")).status_code == 404, name
    file = tmp_path / "reflect.v1.yaml"
    file.write_text(text, "utf-8")
    async with console(service, profiles_dir=tmp_path, console_saves_profiles=True) as own:
        saving["form_token"] = form_token((await own.get("/profiles/reflect.v1")).text)
        invalid = await own.post("/profiles/reflect.v1", data=saving | {"text": f"{text}max_totl_items: 3\n"})
        assert (invalid.status_code, file.read_text("utf-8")) == (400, text)
        assert (await own.post("/profiles/reflect.v1", data=saving)).status_code == 303
        assert file.read_text("utf-8") == edited
        assert (await own.post("/profiles/reflect.v1", data=saving)).status_code == 409


async def test_the_graph_is_drawn_as_a_page_with_a_policy_of_its_own(browser: httpx.AsyncClient) -> None:
    async def is_drawn() -> bool:
        return (await browser.get("/graph/picture")).status_code == 200

    await until(is_drawn, "a picture of the graph")
    picture = await browser.get("/graph/picture?entities=Ana&hops=1&nodes=20")
    assert "script-src 'sha256-" in picture.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in picture.headers["content-security-policy"]
    assert "Fjord Labs" in picture.text
    unknown = await browser.get("/graph/picture?entities=Nobody%20Whatever")
    assert (unknown.status_code, "no entity named Nobody Whatever" in unknown.text) == (404, True)


@pytest.mark.parametrize(
    "odd",
    ["%f0%9f%92%a9" * 300, "a" * 5000, *"%00 %ff%fe %ed%a0%80 ..%2f..%2f %0d%0aX-Injected:%201 %27--".split()],
)
async def test_odd_values_in_addresses_and_forms_are_no_errors_of_the_server(
    browser: httpx.AsyncClient, odd: str
) -> None:
    token = form_token((await browser.get("/ask")).text)
    asked = (
        f"/?window={odd}&outcome={odd}&profile={odd}&verb={odd}&tenant={odd}",
        f"/?before={odd}",
        f"/decisions/{odd}",
        f"/decisions?id={odd}",
        f"/memories?words={odd}&tenant={odd}",
        f"/memory?id={odd}&tenant={odd}",
        f"/graph/picture?entities={odd}&nodes={odd}&hops={odd}&tenant={odd}",
        f"/profiles/{odd}",
        f"/replays/{odd}",
        f"/static/{odd}",
        f"/memory?id=m-crane&tenant=default&said={odd}",
    )
    for path in asked:
        answer = await browser.get(path, follow_redirects=True)
        assert answer.status_code in (200, 400, 404), (path[:60], answer.status_code)
        assert "x-injected" not in answer.headers
    fields = ("query", "profile", "other", "k", "tenant", "again", "of", "id", "text", "version", "memory", "used")
    body = f"form_token={token}&" + "&".join(f"{name}={odd}" for name in fields)
    for path in ("/ask", "/memory/delete", "/profiles/reflect.v1", "/sign-in"):
        answer = await browser.post(
            path, content=body, headers={"content-type": "application/x-www-form-urlencoded"}
        )
        assert answer.status_code in (200, 303, 400, 404), (path, answer.status_code)


async def test_what_is_not_there_is_said_so(browser: httpx.AsyncClient) -> None:
    for path in ("/decisions/nothing", "/decisions/00000000-0000-0000-0000-000000000000", "/decisions?id=zzzz"):
        answer = await browser.get(path, follow_redirects=True)
        assert answer.status_code == 404, path
        assert "There is no such decision" in answer.text
    assert (await browser.get("/nowhere")).status_code == 404
    for name in ("nothing.json", "..%2f..%2fx.json", "x.txt"):
        assert (await browser.get(f"/replays/{name}")).status_code == 404, name


async def test_with_tokens_one_signs_in_and_sees_ones_own_tenant(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    token, operator = new_token(), new_token()
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[tokens]]\nname = "ana"\nsha256 = "{token_hash(token)}"\ntenant = "{tenant}"\nmay = []\n'
        f'[[tokens]]\nname = "op"\nsha256 = "{token_hash(operator)}"\ntenant = "*"\nmay = ["operate", "recall"]\n',
        "utf-8",
    )
    file.chmod(0o600)
    others = await decided(service_database, client, "Whose secret crane is this?")
    own = await decided(service_database, client, "Whose own crane is this?", tenant=tenant)
    async with console(service, console_tokens=file) as browser:
        for path in ("/", f"/decisions/{others}", "/now/stream", "/replays", "/memories", "/profiles", "/nowhere"):
            answer = await browser.get(path)
            assert answer.status_code in (401, 404), path
            assert "crane" not in answer.text
        assert (await browser.post("/ask", data={"query": "x", "form_token": "x"})).status_code == 401
        wrong = await browser.post("/sign-in", data={"token": "wrong", "target": "/ask"})
        assert (wrong.status_code, 'name="target" value="/ask"' in wrong.text) == (401, True)
        abroad = await browser.post("/sign-in", data={"token": token, "target": "//evil.example"})
        assert abroad.headers["location"] == "/"
        browser.cookies.clear()
        signed_in = await browser.post("/sign-in", data={"token": token, "target": f"/decisions/{own}"})
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, f"/decisions/{own}")
        home = (await browser.get("/")).text
        assert "Whose own crane is this?" in home
        assert "Whose secret crane is this?" not in home
        assert (await browser.get(f"/decisions/{own}")).status_code == 200
        assert (await browser.get(f"/decisions/{others}")).status_code == 404
        assert (await browser.get("/replays")).status_code == 403
        assert (await browser.get("/memory?tenant=default&id=m-crane")).status_code == 404
        assert "gearbox" not in (await browser.get("/memories?tenant=default")).text
        assert (await browser.get("/ask")).status_code == 403
        forged = {"form_token": form_token(home), "used": "m-1"}
        assert (await browser.post(f"/decisions/{own}/feedback", data=forged)).status_code == 403
        await browser.post("/sign-out", data={"form_token": form_token(home)})
        assert (await browser.get("/")).status_code == 401
        await browser.post("/sign-in", data={"token": operator})
        assert "Whose secret crane is this?" in (await browser.get("/?window=day")).text
        assert (await browser.get("/replays")).status_code == 200
        file.write_text(file.read_text("utf-8").replace(token_hash(operator), token_hash(new_token())), "utf-8")
        assert (await browser.get("/replays")).status_code == 401


async def test_pages_say_what_is_away_and_the_log_is_read_without_the_bus() -> None:
    folder = Path(tempfile.gettempdir()) / f"orion-console-{uuid4().hex}"
    try:
        async with EmbeddedEngines.start(folder) as engines:
            await migrate(engines.postgres_dsn)
            settings = Settings.read(
                redis_url=engines.redis_url, postgres_dsn=engines.postgres_dsn, data_dir=folder, console_port=0
            )
            async with (
                running_console(settings, read_status) as url,
                httpx.AsyncClient(base_url=url, timeout=30) as browser,
            ):
                page = (await browser.get("/ask")).text
                await engines.valkey.stop()
                assert (await browser.get("/")).status_code == 200
                form = {"form_token": form_token(page), "query": "Who?"}
                asked = await browser.post("/ask", data=form)
                assert (asked.status_code, "This did not work" in asked.text) == (503, True)
                await engines.postgres.stop()
                away = await browser.get("/")
                assert (away.status_code, "This did not work" in away.text) == (503, True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
