#!/usr/bin/python3
"""stream_replay.py generate DIR --larder BIN [--count N] [--windows NAME,NAME...]
stream_replay.py measure DIR --benchmark BIN --output DIR --compiler-description TEXT --storage-description TEXT [FILTER]...
stream_replay.py compare BEFORE AFTER [--accepted FILE]

Replays traces through stream_bench in a matrix of settings.

generate makes DIR/families, the corpus of the three synthetic families (trace_families.py) of N requests each (512), and DIR/NAME for each
window of a recorded game (bench/traces/windows; none by default).

measure checks the digests of everything that generate made, runs a process for each cell of

  families x layouts x workers x contention x open modes x tracing x repetitions

in an order that is shuffled but always the same, and writes into the output folder
  environment.json   what ran where: machine, binary, source, corpora by digest, settings, failures
  runs.jsonl         a line a run: its cell, its command for running it again alone, and what stream_bench said
  summary.json       for each cell the least, the median and the most of its runs' figures; samples of runs are not put together, and
                     nothing is said about significance. Also what tracing costs, from cells that differ in nothing else.

Filters, each a comma list; the defaults are 648 runs:
  --families         startup,transition,background; windows by name
  --layouts          loose,raw.pack,lz4.pack; also raw.pack+anew lz4.pack+anew remote-warm remote-cold parent-crc
  --workers          0,1,4
  --contention       0,2: threads of load
  --open-modes       shared,independent
  --tracing          off,on
  --repetitions      3
  --validation       contention 0, shared, tracing off: 81 runs
Further:
  --cache MODE       warm (default) | uncontrolled | cold-start: drops the page cache before each run; needs --disposable-runner and root
  --poll-us N, --frame-us N, --frame-budget-us N     as stream_bench

A run fails by its exit status, or by allocating while it is timed (remote layouts may). Exit status: 0 all good, 1 a run failed,
2 usage.

compare prints each figure of AFTER that is worse than BEFORE's by more than was accepted beforehand (bench/stream_accepted.tsv), and
exits with 1 where there is one.
"""
import argparse
import fnmatch
import hashlib
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time

import stream_corpus
import trace_families

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WINDOWS = os.path.join(HERE, "traces", "windows")
AXES = ("family", "layout", "workers", "load", "open", "tracing")
RUN_SECONDS = 300
DISTRIBUTIONS = ("queue", "network", "service", "delivery", "total", "lateness", "cancel")
RANKS = ("p50_ns", "p95_ns", "p99_ns", "max_ns")
PLAIN = ("elapsed_ns", "cpu_ns", "validate_ns", "rss_kib", "hot_allocations")


class ReplayError(Exception):
    """What is wrong, and where."""


# ---- generate ----

def generate(args):
    """The corpora."""
    traces = {name: trace_families.family_text(name, args.count) for name in trace_families.FAMILIES}
    made = [("families", trace_families.family_files(), traces)]
    for name in filter(None, args.windows.split(",")):
        path = os.path.join(WINDOWS, name)
        files = stream_corpus.read_list(stream_corpus.read_maybe_gzipped(path + ".files.gz"), name)
        made.append((name, files, {name: stream_corpus.read_maybe_gzipped(path + ".trace.gz")}))
    for name, files, texts in made:
        folder = os.path.join(args.folder, name)
        stream_corpus.make_corpus(folder, files, list(trace_families.CLASSES), args.larder, texts)
        print(f"{folder}: {len(files)} files of {sum(size for _, size in files)} bytes, traces {', '.join(texts)}")
    return 0


# ---- measure ----

def corpus_of(folder, family):
    """The corpus of a family or window."""
    return os.path.join(folder, "families" if family in trace_families.FAMILIES else family)


def cells_of(args):
    """Every run's cell, in the order of running."""
    axes = (args.families, args.layouts, args.workers, args.contention, args.open_modes, args.tracing)
    cells = [dict(zip(AXES, values), repetition=repetition)
             for values in itertools.product(*axes) for repetition in range(args.repetitions)]
    dice = random.Random("larder")
    return [cell for _, cell in sorted(((dice.random(), cell) for cell in cells), key=lambda pair: pair[0])]


def command_of(args, cell):
    """What runs a cell."""
    corpus = corpus_of(args.folder, cell["family"])
    command = [args.benchmark, corpus, "--stream", "--trace", os.path.join(corpus, cell["family"] + ".trace"),
               "--layouts", cell["layout"], "--workers", cell["workers"], "--load", cell["load"], "--open", cell["open"],
               "--tracing", cell["tracing"], "--cache", args.cache, "--poll-us", str(args.poll_us)]
    if args.frame_us:
        command += ["--frame-us", str(args.frame_us), "--frame-budget-us", str(args.frame_budget_us)]
    return command


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")


def run_cell(args, cell):
    """One line of runs.jsonl."""
    command = command_of(args, cell)
    line = {"cell": cell, "command": command}
    if args.cache == "cold-start":
        drop_caches()
    began = time.time()
    try:
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        return dict(line, failure=f"no end after {RUN_SECONDS} s")
    line.update(seconds=round(time.time() - began, 3), exit_status=run.returncode)
    if run.returncode:
        return dict(line, failure=run.stderr.strip() or f"exit status {run.returncode}")
    line["result"] = json.loads(run.stdout.splitlines()[-1])
    allocations = line["result"]["hot_allocations"]
    if allocations and not cell["layout"].startswith("remote-"):
        line["failure"] = f"{allocations} allocations in the timed pass"
    return line


def first_line_of(path, start):
    try:
        with open(path, encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(start)), "")
    except OSError:
        return ""


def output_of(*command):
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def environment_of(args, corpora, count):
    """What ran where."""
    return {
        "format": "fs-r2-environment", "version": 1,
        "machine": {"system": platform.platform(), "processor": first_line_of("/proc/cpuinfo", "model name"),
                    "processors": os.cpu_count(), "memory": first_line_of("/proc/meminfo", "MemTotal"),
                    "load_at_start": os.getloadavg(), "storage": args.storage_description},
        "compiler": args.compiler_description,
        "source": {"revision": output_of("git", "rev-parse", "HEAD"),
                   "changed_files": output_of("git", "status", "--porcelain", "--untracked-files=no").splitlines()},
        "benchmark": {"path": os.path.abspath(args.benchmark), "sha256": stream_corpus.sha256_of(args.benchmark),
                      "build": subprocess.run([args.benchmark, "--version"], check=False, capture_output=True, text=True).stdout.strip()},
        "corpora": {name: {"inputs": described["inputs"], "sha256": corpus_digest(described)} for name, described in corpora.items()},
        "command": sys.argv, "cache": args.cache, "poll_us": args.poll_us, "frame_us": args.frame_us, "runs": count,
        "started": time.strftime("%FT%TZ", time.gmtime()),
    }


def corpus_digest(described):
    """One digest over everything that corpus.json says."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def flat(result):
    """The figures of a run by name."""
    figures = {name: result[name] for name in PLAIN}
    for name in DISTRIBUTIONS:
        figures.update({f"{name}.{rank}": result["distributions"][name][rank]
                        for rank in RANKS if rank in result["distributions"][name]})
    figures.update({f"counts.{name}": value for name, value in result["counts"].items()})
    figures.update({f"{name}.{part}": result[name][part] for name in ("backlog", "in_flight") for part in ("peak", "mean")})
    for name in ("ours", "ready"):
        figures.update({f"frames.{name}.{rank}": value for rank, value in result.get("frames", {}).get(name, {}).items()})
    for name in ("frames", "over_budget", "late"):
        if "frames" in result:
            figures[f"frames.{name}"] = result["frames"][name]
    return {name: value for name, value in figures.items() if value is not None}


def summary_of(lines):
    """Least, median and most for each cell."""
    groups = {}
    for line in lines:
        if "result" in line:
            groups.setdefault(tuple(line["cell"][axis] for axis in AXES), []).append(flat(line["result"]))
    cells = []
    for key, runs in sorted(groups.items()):
        names = dict.fromkeys(name for run in runs for name in run)
        figures = {}
        for name in names:
            values = [run[name] for run in runs if name in run]
            figures[name] = {"least": min(values), "median": statistics.median(values), "most": max(values)}
        cells.append({**dict(zip(AXES, key)), "runs": len(runs), "figures": figures})
    return {"format": "fs-r2-summary", "version": 1, "cells": cells, "tracing_cost": tracing_cost(cells)}


def tracing_cost(cells):
    """Medians with tracing by those without, for cells that differ in nothing else."""
    found = {tuple(cell[axis] for axis in AXES): cell["figures"] for cell in cells}
    costs = []
    for key, figures in found.items():
        without = found.get(key[:-1] + ("off",))
        if key[-1] != "on" or not without:
            continue
        cost = dict(zip(AXES[:-1], key))
        for name in ("cpu_ns", "total.p50_ns", "total.p99_ns", "rss_kib"):
            if without[name]["median"]:
                cost[name] = round(figures[name]["median"] / without[name]["median"], 4)
        costs.append(cost)
    return costs


def check_cold(args):
    if args.cache != "cold-start":
        return
    if not args.disposable_runner:
        raise ReplayError("--cache cold-start drops the page cache of the whole machine: say --disposable-runner where that hurts nobody")
    if not sys.platform.startswith("linux") or not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        raise ReplayError("--cache cold-start needs Linux and root")


def measure(args):
    """The whole matrix."""
    check_cold(args)
    corpora = {}
    for family in args.families:
        folder = corpus_of(args.folder, family)
        name = os.path.basename(folder)
        if name not in corpora:
            corpora[name] = stream_corpus.check_corpus(folder)
        if family + ".trace" not in corpora[name]["inputs"]:
            raise ReplayError(f"{folder}: no trace {family}")
    cells = cells_of(args)
    os.makedirs(args.output, exist_ok=True)
    environment = environment_of(args, corpora, len(cells))
    lines = []
    with open(os.path.join(args.output, "runs.jsonl"), "w", encoding="utf-8") as file:
        for number, cell in enumerate(cells, 1):
            line = run_cell(args, cell)
            lines.append(line)
            file.write(json.dumps(line) + "\n")
            file.flush()
            if "failure" in line:
                print(f"FAILED {' '.join(map(str, cell.values()))}: {line['failure']}", file=sys.stderr)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(cells)}", end="", file=sys.stderr)
    failures = [{"cell": line["cell"], "failure": line["failure"]} for line in lines if "failure" in line]
    environment.update(ended=time.strftime("%FT%TZ", time.gmtime()), load_at_end=os.getloadavg(), failures=failures)
    for name, value in (("environment.json", environment), ("summary.json", summary_of(lines))):
        with open(os.path.join(args.output, name), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.write("\n")
    reads = sum(line["result"]["counts"]["reads"] for line in lines if "result" in line)
    read_bytes = sum(line["result"]["counts"]["bytes"] for line in lines if "result" in line)
    print(f"{len(lines)} runs, {len(failures)} failed; {reads} reads of {read_bytes} bytes, every byte compared")
    return 1 if failures else 0


# ---- compare ----

def read_accepted(path):
    """[(layout pattern, figure pattern, ratio, slack)]"""
    rules = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                fields = line.rstrip("\n").split("\t")
                if len(fields) != 4:
                    raise ReplayError(f"{path}:{number}: {len(fields)} fields, 4 wanted")
                rules.append((fields[0], fields[1], float(fields[2]), float(fields[3])))
    return rules


def worse(before, after, rules):
    """Figures over what is accepted, as texts; how many were compared."""
    old = {tuple(cell[axis] for axis in AXES): cell for cell in before["cells"]}
    found, compared = [], 0
    for cell in after["cells"]:
        key = tuple(cell[axis] for axis in AXES)
        for name, figure in cell["figures"].items():
            rule = next((rule for rule in rules if fnmatch.fnmatchcase(cell["layout"], rule[0]) and fnmatch.fnmatchcase(name, rule[1])),
                        None)
            if not rule or key not in old or name not in old[key]["figures"]:
                continue
            compared += 1
            was, now = old[key]["figures"][name]["median"], figure["median"]
            if now > was * rule[2] + rule[3]:
                found.append(f"{' '.join(map(str, key))}: {name} {now:g}, was {was:g}, accepted {was * rule[2] + rule[3]:g}")
    return found, compared


def compare(args):
    """Both summaries against what was accepted."""
    summaries = []
    for folder in (args.before, args.after):
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            summaries.append(json.load(file))
    found, compared = worse(*summaries, read_accepted(args.accepted))
    for text in found:
        print(text)
    print(f"{compared} figures compared, {len(found)} worse than accepted")
    return 1 if found or not compared else 0


# ---- the command line ----

def words(text):
    return [word for word in text.split(",") if word]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("generate")
    made.add_argument("folder")
    made.add_argument("--larder", required=True)
    made.add_argument("--count", type=int, default=512)
    made.add_argument("--windows", default="")
    run = commands.add_parser("measure")
    run.add_argument("folder")
    for name in ("benchmark", "output", "compiler-description", "storage-description"):
        run.add_argument("--" + name, required=True)
    for name, default in (("families", "startup,transition,background"), ("layouts", "loose,raw.pack,lz4.pack"), ("workers", "0,1,4"),
                          ("contention", "0,2"), ("open-modes", "shared,independent"), ("tracing", "off,on")):
        run.add_argument("--" + name, type=words, default=words(default))
    run.add_argument("--repetitions", type=int, default=3)
    run.add_argument("--validation", action="store_true")
    run.add_argument("--cache", choices=("warm", "uncontrolled", "cold-start"), default="warm")
    run.add_argument("--disposable-runner", action="store_true")
    run.add_argument("--poll-us", type=int, default=1000)
    run.add_argument("--frame-us", type=int, default=0)
    run.add_argument("--frame-budget-us", type=int, default=1000)
    compared = commands.add_parser("compare")
    compared.add_argument("before")
    compared.add_argument("after")
    compared.add_argument("--accepted", default=os.path.join(HERE, "stream_accepted.tsv"))
    args = parser.parse_args()
    if args.command == "generate" and not 0 < args.count <= trace_families.REQUESTS_MAX:
        parser.error(f"--count {args.count}: 1 to {trace_families.REQUESTS_MAX}")
    if args.command == "measure" and args.validation:
        args.contention, args.open_modes, args.tracing = ["0"], ["shared"], ["off"]
    return args


def main():
    args = parse()
    try:
        return {"generate": generate, "measure": measure, "compare": compare}[args.command](args)
    except (ReplayError, stream_corpus.CorpusError, OSError, ValueError, KeyError) as error:
        print(f"stream_replay.py: {type(error).__name__ if isinstance(error, KeyError) else ''}{error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
