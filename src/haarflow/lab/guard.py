"""Who may speak to the lab: the page it served itself, to whoever holds the token of this start, and nobody else.

Pages of other sites cannot: their Origin is another one, and their requests carry no cookie (SameSite=Strict). Names
that point to this machine cannot (DNS rebinding): the Host is compared with a list.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OPEN = "Open the address that `haarflow lab` printed: it carries the token of this start."


class Guard:
    """An ASGI application in front of another: Host, Origin, token and method, in this order, and headers for all."""

    def __init__(self, app: Any, *, hosts: tuple[str, ...], token: str, open_paths: tuple[str, ...] = ()):
        self.app, self.hosts, self.token, self.open_paths = app, hosts, token, open_paths
        self.secret = hashlib.sha256(b"cookie" + token.encode()).hexdigest()  # so that no address holds it
        self.cookie = f"haarflow_lab_{hosts[0].rpartition(':')[2]}"

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer, or let through."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)

        async def sealed(message: Any) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                known = {name.lower() for name, _ in message.get("headers", [])}
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *(one for one in extra if one[0] not in known)]
            await send(message)

        refusal = self.refusal(scope)
        if refusal is None:
            return await self.app(scope, receive, sealed)
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008})
        return await refusal(scope, receive, sealed)

    def refusal(self, scope: dict[str, Any]) -> Response | None:
        """What is answered in place of the application; None where the request may pass."""
        headers, method = Headers(scope=scope), scope.get("method", "GET")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return PlainTextResponse("This lab answers to its own address only.", 421)
        origins = headers.getlist("origin")
        same = len(origins) == 1 and origins[0].lower() == f"http://{hosts[0].lower()}"
        if (origins and not same) or (not origins and (scope["type"] == "websocket" or method not in ("GET", "HEAD"))):
            return PlainTextResponse("This lab answers to its own page only.", 403)
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("GET, HEAD or POST.", 405, {"Allow": "GET, HEAD, POST"})
        given = QueryParams(scope.get("query_string", b"").decode("latin-1")).getlist("token")
        if scope["type"] == "http" and scope["path"] == "/" and method == "GET" and len(given) == 1:
            if _equal(given[0], self.token):
                return self.admitted()
            return PlainTextResponse(f"That token is not the one of this start. {OPEN}", 403)
        cookies = cookie_parser(headers.get("cookie", ""))
        if _equal(cookies.get(self.cookie, ""), self.secret) or scope["path"] in self.open_paths:
            return None
        return PlainTextResponse(OPEN, 403)

    def admitted(self) -> Response:
        """To the page, with the cookie, without the token in its address; the part after # stays with the browser."""
        found = RedirectResponse("/", 303)
        found.set_cookie(self.cookie, self.secret, httponly=True, samesite="strict", path="/")
        return found


def _equal(given: str, wanted: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def hosts_of(host: str, port: int) -> tuple[str, ...]:
    """The values of Host under which this server is meant."""
    names = LOOPBACK if host in ("127.0.0.1", "::1", "localhost") else (host, *LOOPBACK)
    return tuple(f"{name}:{port}" for name in names)
