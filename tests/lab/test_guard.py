"""Who may speak to the lab: the matrix of Host, Origin, token and method; uploads; and messages of every kind."""

import io
import itertools
import json
import warnings

import numpy as np
import pytest
from starlette.websockets import WebSocketDisconnect

from haarflow.lab import uploads
from haarflow.lab.app import FILES, lab
from haarflow.lab.guard import hosts_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some releases of starlette ask for another client than the one they take
    from starlette.testclient import TestClient

TOKEN = "a" * 43
HOST = "127.0.0.1:8765"
OWN = {"host": HOST, "origin": f"http://{HOST}"}


@pytest.fixture
def guard(tmp_path):
    return lab(hosts=hosts_of("127.0.0.1", 8765), token=TOKEN, results=tmp_path, spare=False)


@pytest.fixture
def client(guard):
    with TestClient(guard, base_url=f"http://{HOST}", follow_redirects=False, raise_server_exceptions=True) as one:
        yield one


@pytest.fixture
def friend(client):
    assert client.get(f"/?token={TOKEN}").status_code == 303
    return client


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_sees(client):
    assert client.get("/").status_code == 403
    answer = client.get(f"/?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200


def test_the_token_opens_nothing_by_itself(client):
    """It is exchanged for the cookie at the page's own address; elsewhere an address that holds it is a stranger's."""
    for path in ("/api/schema", "/main.js", "/api/records"):
        assert client.get(f"{path}?token={TOKEN}").status_code == 403, path
    assert client.post(f"/upload?ending=csv&token={TOKEN}", content=b"1,2\n", headers=OWN).status_code == 403
    assert client.get(f"/?token={TOKEN}&token={TOKEN}").status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(f"/live?token={TOKEN}", headers=OWN):
        pass


HOSTS = {HOST: True, "localhost:8765": True, "[::1]:8765": True, "evil.example": False, "127.0.0.1": False, "": False}
ORIGINS = {"own": True, None: None, "http://evil.example": False, "null": False, "https://127.0.0.1:8765": False}
METHODS = {"GET": "/", "HEAD": "/", "POST": "/upload?ending=csv", "PUT": "/", "DELETE": "/api/records", "OPTIONS": "/"}


@pytest.mark.parametrize("host", HOSTS)
def test_the_matrix_of_host_origin_token_and_method(guard, host):
    for origin, method, known in itertools.product(ORIGINS, METHODS, (True, False)):
        with TestClient(guard, base_url=f"http://{HOST}", follow_redirects=False) as client:
            cookies = {guard.cookie: guard.secret if known else "wrong"}
            headers = {"host": host, "cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())}
            if origin is not None:
                headers["origin"] = f"http://{host}" if origin == "own" else origin
            answer = client.request(
                method, METHODS[method], headers=headers, content=b"1,2\n3,4\n" * (method == "POST")
            )
        reading = method in ("GET", "HEAD")
        fits = HOSTS[host] and (ORIGINS[origin] or (ORIGINS[origin] is None and reading))
        allowed = fits and known and (reading or method == "POST")
        assert (answer.status_code == 200) == allowed, (host, origin, method, known, answer.status_code)
        assert answer.status_code < 500
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(("host", "origin", "known"), list(itertools.product(HOSTS, ORIGINS, (True, False))))
def test_the_socket_opens_for_its_own_page_only(guard, host, origin, known):
    headers = {"host": host, "cookie": f"{guard.cookie}={guard.secret if known else TOKEN}"}
    if origin is not None:
        headers["origin"] = f"http://{host}" if origin == "own" else origin
    client = TestClient(guard, base_url=f"http://{HOST}")
    if HOSTS[host] and ORIGINS[origin] and known:
        with client.websocket_connect("/live", headers=headers) as socket:
            socket.send_text("{}")
            assert socket.receive_json()["type"] == "refused"
    else:
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/live", headers=headers):
            pass


def test_no_address_becomes_a_path(friend):
    for path in ("/../pyproject.toml", "/..%2f..%2fapp.py", "/static/main.js", "/main.js/", "//etc/passwd",
                 "/api/records/..%2f..", "/api/records/x", "/%00", "/lab.css%00"):  # fmt: skip
        assert friend.get(path).status_code in (403, 404), path
    for path in ("/", *FILES):
        answer = friend.get(path)
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_script_or_style_of_its_own(friend):
    text = friend.get("/").text
    assert "<script>" not in text
    assert "style=" not in text
    assert "onclick" not in text
    for path in FILES:
        assert "innerHTML" not in friend.get(path).text
        assert "http://www.w3.org/2000/svg" in (own := friend.get(path).text) or "http://" not in own.replace(
            "ws://", ""
        )


HEAVY = '{"do": "open", "state": {"particles": 100000, "batch": 4096, "every": 100}}'
BROKEN = [
    "", "nonsense", "[]", "1", '"open"', "null", "{}", '{"do": 1}', '{"do": "open"}', '{"do": "open", "state": 1}',
    '{"do": "open", "preset": "../x"}', '{"do": "open", "link": "v=9"}', '{"do": "turn", "numbers": {"seed": 1}}',
    '{"do": "play"}', '{"do": "seek", "step": "x"}', '{"do": "__init__"}', '{"do": "take", "form": "/etc/passwd"}',
    "[" * 50_000, '{"a":' * 5000, json.dumps({"do": "open", "state": {"group": "é" * 3000}}), "x" * 70_000,
    json.dumps({"do": "open", "state": {"group": "<img src=x onerror=alert(1)>"}}),
    '{"do": "cost", "state": {"dt": NaN}}', HEAVY.replace("open", "cost"), HEAVY,
]  # fmt: skip


def test_malformed_messages_are_answered_by_a_sentence(client, guard):
    with client.websocket_connect("/live", headers={**OWN, "cookie": f"{guard.cookie}={guard.secret}"}) as socket:
        for text in BROKEN:
            socket.send_text(text)
            answer = socket.receive_json()
            assert answer["type"] == "refused", text[:60]
            assert "\n" not in answer["sentence"]
        socket.send_bytes(b"\x00\xff" * 100)
        assert socket.receive_json()["type"] == "refused"
        socket.send_text(json.dumps({"do": "cost", "state": {"particles": 1000}}))
        assert socket.receive_json()["parameters"] == 4


def test_uploads_within_their_bounds(friend, guard):
    def send(content, ending="csv", **query):
        extra = "".join(f"&{name}={value}" for name, value in query.items())
        return friend.post(f"/upload?ending={ending}{extra}", content=content, headers=OWN)

    found = send(b"a,b,y\n1,2,3\n4,5,6\n").json()
    assert (found["rows"], found["inputs"], found["outputs"]) == (2, 2, 1)
    packed = io.BytesIO()
    np.savez(packed, x=np.ones((3, 2)), y=np.ones(3))
    assert send(packed.getvalue(), "npz").json()["rows"] == 3
    bomb = io.BytesIO()
    np.savez_compressed(bomb, x=np.zeros((3_000_000, 3)), y=np.zeros(3_000_000))
    wide = ",".join(["1"] * 30).encode() + b"\n"
    objects = io.BytesIO()
    np.savez(objects, x=np.array([{}], object), y=np.ones(1))
    bad = [(b"", "csv"), (b"x" * (uploads.BYTES + 1), "csv"), (b"1,2\n", "exe"), (b"1,2\n", "../npz"), (wide, "csv")]
    bad += [(b"1,2\n" * (uploads.ROWS + 1), "csv")]
    bad += [(bomb.getvalue(), "npz"), (b"PK\x03\x04", "npz"), (objects.getvalue(), "npz"), (b"1,nan\n2,3\n", "csv")]
    for content, ending in bad:
        answer = send(content, ending)
        assert answer.status_code == 400, ending
        assert answer.json()["sentence"]
    assert send(b"1,2\n", outputs="9").status_code == 400
    assert send(b"1,2\n", outputs="²").status_code == 400
    assert set(guard.app.state.crew.data) >= {found["mark"]}


def test_another_address_asks_for_a_password(tmp_path):
    guard = lab(hosts=hosts_of("lab.example", 80), token=TOKEN, password="long enough", results=tmp_path, spare=False)
    with TestClient(guard, base_url="http://lab.example:80", follow_redirects=False) as client:
        own = {"host": "lab.example:80", "origin": "http://lab.example:80"}
        assert client.get("/", headers={"host": "lab.example:80"}).status_code == 403
        assert client.get("/login", headers={"host": "lab.example:80"}).status_code == 200
        assert "set-cookie" not in client.post("/login", content="password=wrong", headers=own).headers
        assert (
            client.post("/login", content="password=long+enough", headers={"host": "lab.example:80"}).status_code == 403
        )
        answer = client.post("/login", content="password=long+enough", headers=own)
        assert "HttpOnly" in answer.headers["set-cookie"]


def test_the_schema_has_what_the_form_needs(friend):
    facts = friend.get("/api/schema").json()
    assert {"schema", "acts", "tasks", "usual", "presets", "palette"} == set(facts)
    assert facts["tasks"]["batch"] == ["learn"]
    assert "game" not in facts["tasks"]["schemes"]
    assert friend.get("/api/records").json()["records"] == []
