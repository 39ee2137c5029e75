"""Start the lab: on the loopback address, with a token of its own, and a browser if one is wanted."""

import os
import sys
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal

PORT = 8765
TOKEN = "HAARFLOW_LAB_TOKEN"  # a token that stays the same from start to start, for pages that wait for a restart
LETTERS = 64_000
HERE = ("127.0.0.1", "localhost", "::1")


def serve(
    *, host: str = "127.0.0.1", port: int = PORT, browser: bool = True, password: str | None = None, results: Path
) -> None:
    """Serve until it is interrupted."""
    if host not in HERE and not password:
        raise Refusal(
            f"The lab listens to this machine only, unless a password guards it; got --host {host}. "
            "Write --password too, or leave the host out."
        )
    if password is not None and len(password) < 8:
        raise Refusal("A password of the lab has 8 letters or more; got fewer.")
    try:
        import uvicorn
    except ImportError:
        raise Refusal("The lab needs its libraries; write: pip install 'haarflow[lab]'.") from None
    from haarflow.lab.app import lab
    from haarflow.lab.guard import hosts_of

    given = os.environ.get(TOKEN)
    if given is not None and len(given) < 32:
        raise Refusal(f"{TOKEN} has 32 letters or more; got {len(given)}.")
    app = lab(hosts=hosts_of(host, port), token=given, password=password, results=results)
    server = uvicorn.Server(config_of(app, host, port))
    address = f"http://{'127.0.0.1' if host in HERE else host}:{port}/"
    _announce(server, address + ("login" if password else f"?token={app.token}"), browser)
    server.run()


def config_of(app: Any, host: str, port: int) -> Any:
    """How uvicorn serves it: small messages in, no compression of frames, no header that says who it is."""
    import uvicorn

    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=LETTERS * 4,
        ws_per_message_deflate=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32_768,
    )


def _announce(server: Any, address: str, browser: bool) -> None:
    """Print the address, and open it, when the server listens."""
    begun = server.startup

    async def startup(sockets: Any = None) -> None:
        await begun(sockets)
        if server.should_exit:
            return
        print(f"The lab: {address}\nStop it with Ctrl-C.", file=sys.stderr, flush=True)
        if browser:
            import webbrowser

            webbrowser.open(address)

    server.startup = startup
