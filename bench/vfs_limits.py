#!/usr/bin/python3
"""vfs_limits.py CSV [LIMITS]: the ratios that must hold (bench/vfs_limits.tsv), looked up in a table of vfs_bench.

A line a limit, tab-separated: what, figure ("none" where a row was not run), limit. A limit whose target ends in * is a
line for each such target that was run, its worst scenario where the scenario ends in * too; none at all is "none".

Exit status: 0 all hold, 1 some do not or were not run, 2 usage or a table that cannot be read.
"""
import csv
import os
import sys


def read_speeds(path):
    """(scenario, target, threads) -> operations a second."""
    with open(path, encoding="utf-8") as file:
        return {(row["scenario"], row["target"], int(row["threads"])): float(row["ops_per_s"])
                for row in csv.DictReader(file)}


def read_limits(path):
    """The limits in order."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 6:
                sys.exit(f"{path}:{number}: {len(fields)} fields, 6 wanted")
            scenario, target, threads, limit, reference, other = fields
            yield scenario, target, int(threads), float(limit), reference, other


def matching(pattern, names):
    """The names of a pattern, in order."""
    if pattern.endswith("*"):
        return [name for name in names if name.startswith(pattern[:-1])]
    return [pattern]


def figures(speeds, limit):
    """(what, figure or None) of one limit: the worst scenario for each target."""
    scenario, target, threads, _, reference, other = limit
    scenarios = list(dict.fromkeys(key[0] for key in speeds))
    targets = list(dict.fromkeys(key[1] for key in speeds))
    found = False
    for name in matching(target, targets):
        ratios = []
        for one in matching(scenario, scenarios):
            mine = speeds.get((one, name, threads))
            theirs = speeds.get((one if other == "=" else other, reference, threads))
            if mine and theirs:
                ratios.append((mine / theirs, one))
            elif not scenario.endswith("*"):
                ratios.append((None, one))
        if ratios:
            found = True
            ratio, one = min(ratios, key=lambda pair: -1 if pair[0] is None else pair[0])
            by = reference if other == "=" else f"{reference} {other}"
            yield f"{name} {one}, {threads} threads, by {by}", ratio
    if not found:
        yield f"{target} {scenario}, {threads} threads, by {reference}", None


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vfs_limits.tsv")
    try:
        speeds = read_speeds(sys.argv[1])
        limits = list(read_limits(sys.argv[2] if len(sys.argv) == 3 else default))
    except (OSError, KeyError, ValueError) as error:
        print(f"vfs_limits.py: {error}", file=sys.stderr)
        return 2
    status = 0
    for limit in limits:
        for what, ratio in figures(speeds, limit):
            print(f"{what}\t{'none' if ratio is None else f'{ratio:.3f}'}\t{limit[3]:g}")
            if ratio is None or ratio < limit[3]:
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
