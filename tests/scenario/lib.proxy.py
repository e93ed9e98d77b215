#!/usr/bin/env python3
"""lib.proxy.py UPSTREAM [RULE]...: stands between a client and a server of the loopback, so that a test can act
at an exact moment of their talk.

  --before METHOD PREFIX N COMMAND   runs a shell command before the n-th request of this method whose path begins
                                     so is passed on
  --fail METHOD PREFIX N STATUS      answers STATUS, always, for the n-th different path of this kind

Prints "listening on URL", then a line for each request: method, path, Range ("-" for none), Accept-Encoding.
"""
import http.client
import http.server
import subprocess
import sys
import threading
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect"}


class Rules:
    """What to do with which request; counts are shared by all connections."""

    def __init__(self, arguments):
        self.lock = threading.Lock()
        self.before, self.fail = [], []
        while arguments:
            kind, method, prefix, number, what = arguments[:5]
            rule = {"method": method, "prefix": prefix, "number": int(number), "what": what, "seen": []}
            {"--before": self.before, "--fail": self.fail}[kind].append(rule)
            arguments = arguments[5:]

    @staticmethod
    def matching(rules, method, path):
        return [rule for rule in rules if rule["method"] == method and path.startswith(rule["prefix"])]

    def commands(self, method, path):
        """The commands that this request sets off."""
        with self.lock:
            due = []
            for rule in self.matching(self.before, method, path):
                rule["seen"].append(path)
                if len(rule["seen"]) == rule["number"]:
                    due.append(rule["what"])
            return due

    def status(self, method, path):
        """The status to answer instead of asking the server, or None."""
        with self.lock:
            for rule in self.matching(self.fail, method, path):
                if path not in rule["seen"]:
                    rule["seen"].append(path)
                if rule["seen"].index(path) + 1 == rule["number"]:
                    return int(rule["what"])
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rules = upstream = None

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        print(self.command, self.path, self.headers.get("Range", "-"), self.headers.get("Accept-Encoding", "-"),
              flush=True)
        for command in self.rules.commands(self.command, self.path):
            subprocess.run(command, shell=True, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        status = self.rules.status(self.command, self.path)
        if status:
            self.answer(status, [("Content-Length", "0"), ("Cache-Control", "no-store")], b"")
            return
        server = http.client.HTTPConnection(self.upstream, timeout=60)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                server.putheader(name, value)
        server.endheaders(body)
        answer = server.getresponse()
        self.answer(answer.status, answer.getheaders(), answer.read())
        server.close()

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = forward


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that was killed is no news."""


def main():
    Handler.upstream = urlsplit(sys.argv[1]).netloc
    Handler.rules = Rules(sys.argv[2:])
    server = Server(("127.0.0.1", 0), Handler)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
