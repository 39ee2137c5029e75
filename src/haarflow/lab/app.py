"""The lab's server: a page, its modules, a socket, uploads and records; every answer is one of a fixed table."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from haarflow.errors import Refusal
from haarflow.lab import presets, uploads
from haarflow.lab.crew import SESSIONS, Crew
from haarflow.lab.guard import Guard
from haarflow.lab.records import Records
from haarflow.lab.sessions import SOCKETS, Session
from haarflow.lab.state import LabState, acting, tasks_of
from haarflow.runs.style import PALETTE

SCRIPT, STYLE = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
MODULES = ("births", "camera", "clouds", "controls", "curves", "functions", "look", "main")
MODULES += ("points", "records", "scene", "socket", "svg", "takeaway", "wire")
FILES = {"/lab.css": ("lab.css", STYLE)} | {f"/{name}.js": (f"{name}.js", SCRIPT) for name in MODULES}
SECONDS = 15.0  # that a body may take to arrive
UPLOADS = 64_000_000  # bytes of all uploaded data
REPORT = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:"
WAIT = 1.0  # seconds that a wrong password costs


def lab(
    *,
    hosts: tuple[str, ...],
    token: str | None = None,
    password: str | None = None,
    results: Path = Path("results"),
    sessions: int = SESSIONS,
    spare: bool = True,
) -> Guard:
    """The whole application. `guard.token` is what the first address carries."""
    crew, records = Crew(sessions, spare=spare), Records(results)
    token = token or secrets.token_urlsafe(32)

    @asynccontextmanager
    async def lifespan(_: Starlette):
        crew.prepare()
        yield
        await crew.close()

    routes = [
        Route("/", _file("index.html", "text/html; charset=utf-8")),
        Route("/favicon.ico", _nothing),
        *(Route(path, _file(*entry)) for path, entry in FILES.items()),
        Route("/api/schema", _schema),
        Route("/api/records", _records(records)),
        Route("/api/records/{mark}", _report(records)),
        Route("/upload", _upload(crew), methods=["POST"]),
        WebSocketRoute("/live", _live(crew)),
    ]
    if password is not None:
        routes.append(Route("/login", _login(password), methods=["GET", "POST"]))
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False
    guard = Guard(app, hosts=hosts, token=token, open_paths=("/login",) if password is not None else ())
    app.state.guard, app.state.crew = guard, crew
    return guard


def page(name: str) -> bytes:
    """A file of the page, as it lies in the package."""
    return (files("haarflow.lab") / "page" / name).read_bytes()


def _file(name: str, media: str) -> Callable:
    content = page(name)

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media)

    return answer


async def _nothing(request: Request) -> Response:
    return Response(status_code=204)


async def _schema(request: Request) -> Response:
    """What the page's form is made of: the schema, the lessons, and the colours of the reports."""
    schema = LabState.model_json_schema()
    acts = {kind: acting(kind) for kind in ("slides", "restarts", "recompiles", "looks")}
    usual = LabState().model_dump(mode="json", exclude_none=True)
    tasks = {name: tasks_of(name) for name in LabState.model_fields}
    facts = {"schema": schema, "acts": acts, "tasks": tasks, "usual": usual, "presets": presets.listed()}
    return JSONResponse({**facts, "palette": PALETTE})


def _records(records: Records) -> Callable:
    async def answer(request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(records.table))

    return answer


def _report(records: Records) -> Callable:
    async def answer(request: Request) -> Response:
        try:
            found = await asyncio.to_thread(records.report, request.path_params["mark"])
        except (Refusal, OSError) as refusal:
            return PlainTextResponse(str(refusal), 404)
        if found is None:
            return PlainTextResponse("There is no record of that mark.", 404)
        return HTMLResponse(found, headers={"Content-Security-Policy": REPORT})

    return answer


def _upload(crew: Crew) -> Callable:
    async def answer(request: Request) -> Response:
        try:
            content = await asyncio.wait_for(_body(request, uploads.BYTES), SECONDS)
            ending, outputs = request.query_params.get("ending", ""), request.query_params.get("outputs", "1")
            if not (outputs.isascii() and outputs.isdigit() and 1 <= int(outputs[:3]) <= 8):
                raise Refusal("Label columns are a whole number from 1 to 8.")
            mark, packed, shape = await asyncio.to_thread(uploads.kept, content, ending, int(outputs))
        except TimeoutError:
            return JSONResponse({"sentence": f"A file arrives within {SECONDS:g} s; this one did not."}, 408)
        except Refusal as refusal:
            return JSONResponse({"sentence": str(refusal)}, 400)
        while crew.data and sum(map(len, crew.data.values())) + len(packed) > UPLOADS:
            crew.data.pop(next(iter(crew.data)))
        crew.data[mark], crew.rows[mark] = packed, shape[0]
        return JSONResponse({"mark": mark, "rows": shape[0], "inputs": shape[1], "outputs": shape[2]})

    return answer


async def _body(request: Request, most: int) -> bytes:
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise Refusal(f"A body has {most:,} bytes at most.")
    return bytes(found)


def _live(crew: Crew) -> Callable:
    async def answer(socket: WebSocket) -> None:
        await socket.accept()
        if len(crew.sessions) >= SOCKETS:
            return await socket.close(1013)
        session = Session(socket, crew)
        crew.sessions.add(session)
        await session.serve()

    return answer


def _login(password: str) -> Callable:
    form = page("login.html")

    async def answer(request: Request) -> Response:
        if request.method != "POST":
            return Response(form, media_type="text/html; charset=utf-8")
        try:
            body = await asyncio.wait_for(_body(request, 2000), SECONDS)
        except (TimeoutError, Refusal):
            return PlainTextResponse("A password is shorter.", 400)
        from starlette.datastructures import QueryParams

        given = QueryParams(body.decode("latin-1")).get("password", "")
        if secrets.compare_digest(given.encode(), password.encode()):
            return request.app.state.guard.admitted()
        await asyncio.sleep(WAIT)
        return RedirectResponse("/login", 303)

    return answer
