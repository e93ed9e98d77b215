#!/usr/bin/env python3
"""delivery.py OLD NEW [--rounds N] [--work DIR] [--csv FILE]: Larder beside casync, on the same machine in one run.

Measured, each round interleaved (casync, then larder, then casync, ...), medians and spread over the rounds:

  publish   casync make into a fresh store          larder publish into a fresh folder store
  cold      casync extract over HTTP from nginx     larder fetch from larderd, an empty cache and an empty target
  cold-sync the same, larder fetch with its two syncs of the file system
  step      chunk bytes that casync adds for NEW    bytes that larder fetches to update OLD to NEW

casync syncs nothing. `publish` syncs every pack, record and channel (file and folder). `cold` is larder with
--no-sync, which is what casync does; `cold-sync` is larder's default, which also waits until the disk has it all.
Peak anonymous memory is RssAnon, polled every 5 ms. The page cache is warm for both sides; targets are removed
and the file system is synced between runs, untimed.
"""
import argparse
import csv
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LARDER = os.environ.get("LARDER", os.path.join(ROOT, "build/release/larder"))
LARDERD = os.environ.get("LARDERD", os.path.join(ROOT, "build/release/larderd"))
CASYNC = ["casync"]


def anonymous_kib(pid):
    """RssAnon of a process in KiB, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def timed(command, env=None):
    """Runs a command to its end: seconds, peak anonymous KiB, its standard output."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    peak = 0
    ended = threading.Event()

    def poll():
        nonlocal peak
        while not ended.wait(0.005):
            peak = max(peak, anonymous_kib(process.pid))

    watcher = threading.Thread(target=poll)
    watcher.start()
    out, err = process.communicate()
    seconds = time.monotonic() - started
    ended.set()
    watcher.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}: {err.decode()[-500:]}")
    return seconds, peak, out.decode()


def folder_bytes(path):
    """Bytes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def fresh(*paths):
    """Removes what an earlier round left, and lets the disk settle, untimed."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    os.sync()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_nginx(folder, home):
    """nginx on a folder, on a free port of the loopback: process and URL."""
    port = free_port()
    os.makedirs(home, exist_ok=True)
    user = "user root;" if os.geteuid() == 0 else ""
    with open(f"{home}/nginx.conf", "w") as config:
        config.write(
            f"daemon off; {user} worker_processes 1; pid {home}/pid; error_log {home}/error.log;\n"
            f"events {{ worker_connections 256; }}\nhttp {{ access_log off; sendfile on; keepalive_requests 1000000;\n"
            f"client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home};\n"
            f"uwsgi_temp_path {home}; scgi_temp_path {home};\n"
            f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n")
    process = subprocess.Popen(["nginx", "-e", f"{home}/error.log", "-p", home, "-c", f"{home}/nginx.conf"])
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}"
        time.sleep(0.05)
    sys.exit("nginx does not answer")


def start_larderd(store):
    process = subprocess.Popen([LARDERD, "--store", store, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        sys.exit("larderd does not serve")
    return process, line.split()[2]


class Bench:
    def __init__(self, old, new, work):
        self.old, self.new, self.work = old, new, work
        self.rows = []
        self.seconds, self.peaks = {}, {}
        self.environment = dict(os.environ, LARDER_CACHE=f"{work}/cache")

    def path(self, name):
        return os.path.join(self.work, name)

    def note(self, name, seconds, peak):
        self.seconds.setdefault(name, []).append(seconds)
        self.peaks[name] = max(self.peaks.get(name, 0), peak)

    def larder(self, *words):
        return timed([LARDER, *words], self.environment)

    def publish_round(self):
        fresh(self.path("castore"), self.path("store"), self.path("cache"))
        seconds, peak, _ = timed([*CASYNC, f"--store={self.path('castore')}", "make", self.path("old.caidx"), self.old])
        self.note("publish casync", seconds, peak)
        seconds, peak, _ = self.larder("publish", self.old, "--to", self.path("store"), "--channel", "live", "--key",
                                       self.path("key"), "--links", "drop", "--json")
        self.note("publish larder", seconds, peak)

    def cold_round(self, casync_url, larder_url):
        fresh(self.path("out-casync"))
        seconds, peak, _ = timed([*CASYNC, f"--store={casync_url}/castore", "extract", f"{casync_url}/old.caidx",
                                  self.path("out-casync")])
        self.note("cold casync", seconds, peak)
        for name, options in (("cold", ["--no-sync"]), ("cold-sync", [])):
            fresh(self.path("out-larder"), self.path("cache"))
            seconds, peak, _ = self.larder("fetch", f"{larder_url}#live", self.path("out-larder"), "--trust",
                                           self.path("key.pub"), "--json", *options)
            self.note(f"{name} larder", seconds, peak)

    def step(self, larder_url):
        """What the step from OLD to NEW adds: casync's chunks, larder's bytes on the wire."""
        before = folder_bytes(self.path("castore"))
        timed([*CASYNC, f"--store={self.path('castore')}", "make", self.path("new.caidx"), self.new])
        casync = folder_bytes(self.path("castore")) - before
        self.larder("publish", self.new, "--to", self.path("store"), "--channel", "live", "--key", self.path("key"),
                    "--links", "drop", "--json")
        _, _, out = self.larder("fetch", f"{larder_url}#live", self.path("out-larder"), "--trust",
                                self.path("key.pub"), "--json")
        return casync, json.loads(out)["bytes_fetched"]

    def run(self, rounds):
        self.larder("keygen", self.path("key"))
        for _ in range(rounds):
            self.publish_round()
        nginx, casync_url = start_nginx(self.work, self.path("nginx"))
        larderd, larder_url = start_larderd(self.path("store"))
        try:
            for _ in range(rounds):
                self.cold_round(casync_url, larder_url)
            return self.step(larder_url)
        finally:
            for process in (nginx, larderd):
                process.terminate()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", help="folder to work in (default: a temporary one, removed at the end)")
    parser.add_argument("--csv", help="write the rows here too")
    parser.add_argument("--step-only", action="store_true", help="only the step's bytes, one round")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="larder-delivery-", dir=args.work)
    try:
        bench = Bench(os.path.abspath(args.old), os.path.abspath(args.new), work)
        casync, larder = bench.run(1 if args.step_only else args.rounds)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rows = [["what", "casync", "larder", "ratio", "spread casync", "spread larder", "peak MiB casync",
             "peak MiB larder"]]
    for what, peer in (("publish", "publish"), ("cold", "cold"), ("cold-sync", "cold")):
        a, b = bench.seconds[f"{peer} casync"], bench.seconds[f"{what} larder"]
        rows.append([f"{what} s", f"{statistics.median(a):.3f}", f"{statistics.median(b):.3f}",
                     f"{statistics.median(a) / statistics.median(b):.2f}", f"{min(a):.2f}-{max(a):.2f}",
                     f"{min(b):.2f}-{max(b):.2f}", f"{bench.peaks[f'{peer} casync'] / 1024:.1f}",
                     f"{bench.peaks[f'{what} larder'] / 1024:.1f}"])
    rows.append(["step bytes", str(casync), str(larder), f"{larder / casync:.3f}", "", "", "", ""])
    for row in rows:
        print("\t".join(row))
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
