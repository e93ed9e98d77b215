#!/usr/bin/env python3
"""HTTP conformance of a server over a store: hand-made requests on raw sockets, one case a row.

lib.http.py URL STORE PACK     PACK is the path of a pack below STORE; STORE has channels/live too.

lib.http.py --put URL TOKEN STORE     uploads, to a server that takes them with this token

Prints "ok NAME" or "not ok NAME: why". Nothing here knows larderd's code: bytes go in, bytes come out.
"""
import hashlib
import os
import socket
import sys
import time
from urllib.parse import urlsplit

ADDRESS = None
# Errors that a cache may keep without being told (RFC 9110 §15.1).
CACHED_BY_DEFAULT = (404, 405, 410, 414, 501)
TIMEOUT = 20


class Answer:
    """One parsed answer: status, headers (lower-case names), body, whether the server closed."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def get(self, name):
        return self.headers.get(name.lower())


class Peer:
    """A connection that sends exactly what it is told."""

    def __init__(self):
        self.socket = socket.create_connection(ADDRESS, TIMEOUT)
        self.buffer = b""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fill(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            headers[name.strip().lower()] = value.strip()
        return int(lines[0].split()[1]), headers

    def read(self, method="GET"):
        """The next answer, or None when the server has closed."""
        head = self.read_head()
        while head and head[0] == 100:
            head = self.read_head()
        if head is None:
            return None
        status, headers = head
        length = 0
        if method != "HEAD" and status not in (204, 304):
            length = int(headers.get("content-length", "0"))
        while len(self.buffer) < length:
            if not self.fill():
                break
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Answer(status, headers, body)

    def closed(self):
        """True when nothing more comes and the server has ended the connection."""
        if self.buffer:
            return False
        return not self.fill()

    def finish(self):
        """Sends no more, still reads."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end(self):
        self.socket.close()


def report(name, fault):
    print(f"not ok {name}: {fault}" if fault else f"ok {name}")


def request(target, method="GET", headers=(), version="HTTP/1.1", host="Host: x\r\n"):
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"{method} {target} {version}\r\n{host}{lines}\r\n".encode("latin-1")


def ask(data, method="GET"):
    peer = Peer()
    peer.send(data)
    answer = peer.read(method)
    peer.end()
    return answer


def wanted(answer, status, body=None, fields=()):
    """Why the answer is not the wanted one; fields: (name, value or a function over it)."""
    if answer is None:
        return "the connection was closed without an answer"
    if answer.status != status:
        return f"status {answer.status}, wanted {status}: {answer.body[:100]!r}"
    if body is not None and answer.body != body:
        return f"body of {len(answer.body)} bytes is not the wanted one of {len(body)}"
    for name, value in fields:
        got = answer.get(name)
        if not (value(got) if callable(value) else got == value):
            return f"{name}: {got!r}, wanted {value!r}"
    if status in CACHED_BY_DEFAULT and answer.get("cache-control") != "no-store":
        return f"an error with cache-control {answer.get('cache-control')!r}"
    return None


def ranges(pack, data):
    size = len(data)
    last = size - 1
    rows = [
        ("0-0", 0, 0), ("0-", 0, last), (f"{last}-", last, last), (f"0-{last}", 0, last),
        (f"0-{size}", 0, last), ("-1", last, last), (f"-{size + 5}", 0, last), ("100-199", 100, 199),
        ("5-99999999999999999999999", 5, last), (f"{size // 2}-{size // 2 + 70000}", size // 2, size // 2 + 70000),
    ]
    for spec, first, end in rows:
        answer = ask(request(pack, headers=[f"Range: bytes={spec}"]))
        report(f"range {spec}", wanted(answer, 206, data[first:end + 1], [
            ("content-range", f"bytes {first}-{end}/{size}"), ("accept-ranges", "bytes"),
            ("content-length", str(end - first + 1))]))
    for spec in (f"{size}-", f"{size}-{size + 1}", "-0"):
        answer = ask(request(pack, headers=[f"Range: bytes={spec}"]))
        report(f"range {spec} is nothing", wanted(answer, 416, None, [("content-range", f"bytes */{size}")]))
    for field in ("bytes=0-1,5-6", "bytes=5-2", "bytes=x-y", "lines=0-1", "bytes=", "bytes=-", ""):
        answer = ask(request(pack, headers=[f"Range: {field}"]))
        report(f"range field {field!r} is ignored", wanted(answer, 200, data, [("content-range", None)]))
    answer = ask(request(pack, headers=["Range: bytes=0-0", "Range: bytes=5-6"]))
    report("two range fields are ignored", wanted(answer, 200, data))
    answer = ask(request(pack, "HEAD", ["Range: bytes=0-0"]), "HEAD")
    report("HEAD ignores a range", wanted(answer, 200, b"", [("content-length", str(size))]))


def conditions(pack, data):
    etag = ask(request(pack, "HEAD"), "HEAD").get("etag")
    name = os.path.basename(pack)[:-5]
    report("a pack's ETag is its id", None if etag == f'"{name}"' else f"{etag}")
    rows = [
        (["If-None-Match: " + etag], 304, b""), (["If-None-Match: W/" + etag], 304, b""),
        (["If-None-Match: *"], 304, b""), ([f'If-None-Match: "x", {etag}'], 304, b""),
        (['If-None-Match: "x"'], 200, data), (["If-Match: " + etag], 200, data), (["If-Match: *"], 200, data),
        (['If-Match: "x"'], 412, None), (["If-Match: W/" + etag], 412, None),
        (["If-None-Match: " + etag, "Range: bytes=0-3"], 304, b""),
        (["If-Range: " + etag, "Range: bytes=0-3"], 206, data[:4]),
        (['If-Range: "x"', "Range: bytes=0-3"], 200, data),
        (["If-Range: W/" + etag, "Range: bytes=0-3"], 200, data),
        (["If-Range: Sat, 29 Oct 1994 19:43:31 GMT", "Range: bytes=0-3"], 200, data),
        (["If-Modified-Since: Sat, 29 Oct 2094 19:43:31 GMT"], 200, data),
        (["If-Unmodified-Since: Sat, 29 Oct 1994 19:43:31 GMT"], 200, data),
    ]
    for headers, status, body in rows:
        answer = ask(request(pack, headers=headers))
        fields = [("etag", etag)] if status < 400 else []
        report(f"{' / '.join(headers)[:60]} gives {status}", wanted(answer, status, body, fields))
    peer = Peer()
    peer.send(request(pack, headers=["If-None-Match: " + etag]) + request("/channels/live"))
    first, second = peer.read(), peer.read()
    report("after a 304 the connection goes on", wanted(first, 304) or wanted(second, 200))
    peer.end()


def objects(pack, store):
    for_ever = "public, max-age=31536000, immutable"
    live = open(os.path.join(store, "channels/live"), "rb").read()
    digest = '"' + hashlib.sha256(live).hexdigest() + '"'
    answer = ask(request("/channels/live"))
    report("a channel", wanted(answer, 200, live, [
        ("etag", digest), ("content-type", "application/jose"),
        ("cache-control", lambda v: "max-age=5" in v and "must-revalidate" in v)]))
    answer = ask(request("/channels/live", "HEAD"), "HEAD")
    report("HEAD of a channel", wanted(answer, 200, b"", [("content-length", str(len(live))), ("etag", digest)]))
    answer = ask(request(pack, "HEAD"), "HEAD")
    report("HEAD of a pack", wanted(answer, 200, b"", [
        ("cache-control", for_ever), ("content-type", "application/octet-stream")]))
    form = open(os.path.join(store, "FORMAT"), "rb").read()
    report("FORMAT", wanted(ask(request("/FORMAT")), 200, form))
    report("a channel that is not there", wanted(ask(request("/channels/none")), 404))
    report("a pack that is not there", wanted(ask(request(f"/packs/00/{'0' * 64}.pack")), 404))
    report("a key that is not there", wanted(ask(request(f"/keys/{'k' * 43}.pub")), 404))
    report("a release that is not there", wanted(ask(request("/releases/live/999")), 404))


def urls(pack):
    live = ask(request("/channels/live")).body
    same = ["/channels/live?x", "/channels/live?../..", "/channels/%6cive", "http://x/channels/live", "/channels%2Flive"]
    for target in same:
        report(f"{target} is the channel", wanted(ask(request(target)), 200, live))
    absent = [
        "/", "//", "/channels", "/channels/", "//channels/live", "/channels//live", "/./channels/live",
        "/channels/../channels/live", "/../../../../etc/passwd", "/channels/..%2f..%2f..%2fetc%2fpasswd",
        "/channels/%2e%2e/FORMAT", "/channels/live%00", "/channels/live%00.pack", "/channels/live%2f", "/channels/live/",
        "/FORMAT%00", "/%46ORMAT%2f..", "/channels/live%20", "/channels/LIVE", "/etc/passwd", "/packs/", "/releases/live/",
        "/releases/live/01", "/releases/live/1.", pack + "x", pack.replace("/packs/", "/packs/../packs/"),
        pack.upper(), "/.larder-tmp.1.1", "/channels/..\\FORMAT", "/channels/%c0%ae%c0%ae/FORMAT",
    ]
    for target in absent:
        report(f"{target[:60]} names nothing", wanted(ask(request(target)), 404))
    for target in ("/channels/live%", "/channels/live%4", "/channels/live%zz", "channels/live", "*"):
        report(f"{target} is malformed", wanted(ask(request(target)), 400))
    report("a URL of 8 KiB", wanted(ask(request("/channels/" + "a" * 8192)), 414))
    report("a query of 8 KiB means nothing", wanted(ask(request("/channels/live?" + "a" * 8192)), 200, live))
    answer = ask(request("/channels/" + "a" * 200000))
    report("a URL of 200 KB", None if answer is None or answer.status == 414 else f"status {answer.status}")
    report("and the server still answers", wanted(ask(request("/channels/live")), 200, live))


def methods():
    for method in ("POST", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "get", "FOO"):
        answer = ask(request("/channels/live", method))
        report(f"{method} is not allowed", wanted(answer, 405, None, [("allow", lambda v: v and "GET" in v)]))
    report("PUT without tokens is forbidden", wanted(
        ask(request("/channels/live", "PUT", ["Content-Length: 3"]) + b"abc"), 403))
    report("POST with a body", wanted(ask(request("/channels/live", "POST", ["Content-Length: 3"]) + b"abc"), 405))


def one_answer_then_closed(data, status):
    """The whole of what is sent gives one answer of this status, and the rest is never taken for a request."""
    peer = Peer()
    peer.send(data)
    answer = peer.read()
    fault = wanted(answer, status)
    if not fault and not peer.closed():
        fault = f"the connection goes on: {peer.buffer[:80]!r}"
    peer.end()
    return fault


def smuggling():
    inner = request("/channels/none")
    length = len(inner)
    shapes = [
        ("Content-Length and Transfer-Encoding", "GET", [f"Content-Length: {length}", "Transfer-Encoding: chunked"], b"0\r\n\r\n" + inner),
        ("Transfer-Encoding and Content-Length on PUT", "PUT", ["Transfer-Encoding: chunked", "Content-Length: 5"], b"0\r\n\r\n" + inner),
        ("two different Content-Lengths", "GET", ["Content-Length: 0", f"Content-Length: {length}"], inner),
        ("the same Content-Length twice", "PUT", ["Content-Length: 0", "Content-Length: 0"], inner),
        ("a body with GET", "GET", [f"Content-Length: {length}"], inner),
        ("a chunked body with GET", "GET", ["Transfer-Encoding: chunked"], b"0\r\n\r\n" + inner),
        ("an unknown coding", "PUT", ["Transfer-Encoding: xchunked"], inner),
        ("chunked under another name", "PUT", ["Transfer-Encoding: identity, chunked"], b"0\r\n\r\n" + inner),
        ("a coding behind a tab", "PUT", ["Transfer-Encoding:\tchunked"], b"0\r\n\r\n" + inner),
        ("two Hosts", "GET", ["Host: y"], inner),
    ]
    for name, method, headers, rest in shapes:
        report(f"{name} is refused", one_answer_then_closed(request("/channels/live", method, headers) + rest, 400))
    for value in ("-1", "+5", "0x10", "5,6", "99999999999999999999999", "5 6", "abc"):
        peer = Peer()
        peer.send(request("/channels/live", "GET", [f"Content-Length: {value}"]) + inner)
        while peer.fill():
            pass
        fault = None
        if peer.buffer and not peer.buffer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")):
            fault = f"{peer.buffer[:60]!r}"
        if b"HTTP/1.1 404 " in peer.buffer:
            fault = "what follows was taken for a request"
        report(f"Content-Length {value!r} is refused", fault)
        peer.end()
    report("HTTP/1.1 without Host is refused", one_answer_then_closed(request("/channels/live", host=""), 400))
    report("HTTP/1.0 without Host is served", wanted(ask(request("/channels/live", version="HTTP/1.0", host="")), 200))


def absurd():
    live = ask(request("/channels/live")).body
    shapes = [
        ("a header line of 100 KB", request("/channels/live", headers=["X: " + "a" * 100000])),
        ("2,000 header lines", request("/channels/live", headers=[f"X{i}: y" for i in range(2000)])),
        ("a header without a colon", request("/channels/live", headers=["nonsense"])),
        ("a header with a NUL", request("/channels/live", headers=["X: a\0b"])),
        ("a header name of blanks", request("/channels/live", headers=["   : x"])),
        ("a folded header", request("/channels/live", headers=["X: a\r\n\tb"])),
        ("a blank before the colon", request("/channels/live", headers=["Content-Length : 5"])),
        ("bare line feeds", b"GET /channels/live HTTP/1.1\nHost: x\n\n"),
        ("an unknown version", request("/channels/live", version="HTTP/9.9")),
        ("no version", b"GET /channels/live\r\n\r\n"),
        ("no URL", b"GET\r\n\r\n"),
        ("a URL with a blank", b"GET /channels/live x HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("a URL with a NUL", b"GET /channels/live\0x HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("bytes above 127", b"GET /channels/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("control bytes", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n"),
        ("a line of 200 KB without an end", b"A" * 200000),
        ("an empty line first", b"\r\n" + request("/channels/live")),
    ]
    for name, data in shapes:
        peer = Peer()
        peer.send(data)
        peer.finish()
        answer = peer.read()
        fault = None
        if answer is not None and answer.status < 400 and answer.body != live:
            fault = f"status {answer.status} with a body of its own"
        if answer is not None and answer.status >= 500 and answer.status != 505:
            fault = f"status {answer.status}"
        report(name, fault)
        peer.end()
        report(f"after {name} the server answers", wanted(ask(request("/channels/live")), 200, live))


def connections(pack, data):
    peer = Peer()
    peer.send(request("/channels/live") * 20 + request(pack))
    answers = [peer.read() for _ in range(21)]
    fault = next((f for f in (wanted(a, 200) for a in answers) if f), None)
    report("requests in a pipeline are answered in their order", fault or (None if answers[20].body == data else "the last body"))
    peer.end()
    peer = Peer()
    for byte in request("/channels/live"):
        peer.send(bytes([byte]))
    report("a request in single bytes", wanted(peer.read(), 200))
    peer.send(request("/channels/none"))
    report("an error leaves the connection open", wanted(peer.read(), 404))
    peer.send(request("/channels/live", headers=["Connection: close"]))
    report("Connection: close is obeyed", wanted(peer.read(), 200) or (None if peer.closed() else "still open"))
    peer.end()
    idle = [Peer() for _ in range(100)]
    report("a hundred idle connections harm nobody", wanted(ask(request("/channels/live")), 200))
    for one in idle:
        one.end()
    for _ in range(30):
        peer = Peer()
        peer.send(request(pack))
        peer.socket.recv(1)
        peer.end()
    report("nor do thirty that go away in the middle", wanted(ask(request(pack)), 200, data))


def temporaries(store):
    return [name for _, _, names in os.walk(store) for name in names if name.startswith(".larder-tmp")]


def gone(store):
    """Whether all temporaries are gone, after some time for the server to notice."""
    for _ in range(200):
        if not temporaries(store):
            return None
        time.sleep(0.05)
    return f"left: {temporaries(store)}"


def put(target, headers, token):
    return request(target, "PUT", [f"Authorization: Bearer {token}"] + headers)


def put_framing(token):
    path = f"/packs/00/{'0' * 64}.pack"
    report("a PUT without a length", wanted(ask(put(path, [], token)), 411))
    report("a chunked PUT", wanted(ask(put(path, ["Transfer-Encoding: chunked"], token) + b"3\r\nabc\r\n0\r\n\r\n"), 400))
    report("a PUT that is too large", wanted(ask(put(path, [f"Content-Length: {1 << 40}"], token)), 413))
    key = f"/keys/{'k' * 43}.pub"
    report("a key that is too large", wanted(ask(put(key, ["Content-Length: 5000"], token) + b"x" * 5000), 413))
    report("an empty body", wanted(ask(put(key, ["Content-Length: 0"], token)), 400))
    report("a PUT elsewhere", wanted(ask(put("/etc/passwd", ["Content-Length: 1"], token) + b"x"), 404))
    report("a PUT through an escape", wanted(ask(put("/channels/%2e%2e%2fFORMAT", ["Content-Length: 1"], token) + b"x"), 404))
    report("a PUT of FORMAT", wanted(ask(put("/FORMAT", ["Content-Length: 1"], token) + b"x"), 403))


def put_tokens(token):
    key = f"/keys/{'k' * 43}.pub"
    body = ["Content-Length: 3"]
    for name, field in (("no token", []), ("another scheme", ["Authorization: Basic " + token]),
                        ("half a token", ["Authorization: Bearer " + token[:20]]), ("an empty one", ["Authorization: Bearer "]),
                        ("the scheme alone", ["Authorization: Bearer"])):
        answer = ask(request(key, "PUT", body + field) + b"abc")
        report(f"{name} is refused", wanted(answer, 401, None, [("www-authenticate", lambda v: v and "Bearer" in v)]))
    answer = ask(request(key, "PUT", body + ["authorization: bearer " + token]) + b"abc")
    report("case does not matter", wanted(answer, 422))


def put_connections(token, store):
    key = f"/keys/{'k' * 43}.pub"
    peer = Peer()
    peer.send(put(key, ["Content-Length: 3"], token) + b"abc" + request("/FORMAT"))
    report("a refused body is swallowed", wanted(peer.read(), 422))
    report("and the connection goes on", wanted(peer.read(), 200))
    peer.send(request(key, "PUT", ["Content-Length: 500000"]) + b"x" * 500000 + request("/FORMAT"))
    report("a stranger's too", wanted(peer.read(), 401) or wanted(peer.read(), 200))
    peer.end()

    peer = Peer()
    peer.send(request(key, "PUT", ["Content-Length: 500000", "Expect: 100-continue"]))
    head = peer.read_head()
    report("a stranger is not told to continue", None if head and head[0] == 401 else f"{head}")
    peer.end()
    peer = Peer()
    peer.send(put(key, ["Content-Length: 3", "Expect: 100-continue"], token))
    head = peer.read_head()
    report("a publisher is", None if head and head[0] == 100 else f"{head}")
    peer.send(b"abc")
    report("and gets the answer", wanted(peer.read(), 422))
    peer.end()

    path = f"/packs/00/{'0' * 64}.pack"
    for cut in (0, 1, 5000, 999999):
        peer = Peer()
        peer.send(put(path, ["Content-Length: 1000000"], token) + b"x" * cut)
        for _ in range(100):
            if temporaries(store):
                break
            time.sleep(0.05)
        began = bool(temporaries(store))
        peer.end()
        report(f"an upload cut at {cut} leaves nothing", None if began and not gone(store) else f"began {began}, {gone(store)}")
    peer = Peer()
    for piece in [put(path, ["Content-Length: 300"], token)] + [b"x"] * 300:
        peer.send(piece)
    report("a body in single bytes", wanted(peer.read(), 422))
    peer.end()
    report("nothing is left", gone(store))


def put_main(token, store):
    put_framing(token)
    put_tokens(token)
    put_connections(token, store)


def main():
    global ADDRESS
    parts = urlsplit(sys.argv[2] if sys.argv[1] == "--put" else sys.argv[1])
    ADDRESS = (parts.hostname, parts.port)
    if sys.argv[1] == "--put":
        put_main(*sys.argv[3:5])
        return
    _, store, pack = sys.argv[1:4]
    with open(os.path.join(store, pack), "rb") as file:
        data = file.read()
    pack = "/" + pack
    objects(pack, store)
    ranges(pack, data)
    conditions(pack, data)
    urls(pack)
    methods()
    smuggling()
    absurd()
    connections(pack, data)


if __name__ == "__main__":
    main()
