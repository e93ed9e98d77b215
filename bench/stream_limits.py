#!/usr/bin/python3
"""stream_limits.py GRID [LIMITS]: the limits that must hold (bench/stream_limits.tsv), looked up in what stream_bench printed for its
basic grid (--rounds 5).

A line a limit, tab-separated: what, figure ("none" where a row was not run, "unseen" where it caught nothing), "<=" or ">=", limit. A ratio is taken in each round, between
rows that ran beside each other, and the median of the rounds counts; an absolute figure is the worst of all rounds and rows.

Exit status: 0 all hold, 1 some do not or were not run, 2 usage or a table that cannot be read.
"""
import fnmatch
import os
import statistics
import sys


def read_grid(path):
    """[{kind, layout, workers, pass, figures...}] in the order of running."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            kind, *pairs = line.split()
            if kind in ("row", "cancel"):
                row = dict(pair.split("=", 1) for pair in pairs)
                rows.append({"pass": "cancel-" + row["phase"], **row} if kind == "cancel" else row)
    return rows


def of(rows, selector):
    """Rows that a selector "layout workers pass" names."""
    layout, workers, phase = selector.split()
    return [row for row in rows if fnmatch.fnmatchcase(row["layout"], layout) and fnmatch.fnmatchcase(row["workers"], workers)
            and fnmatch.fnmatchcase(row["pass"], phase)]


def figure_of(rows, selector, figure, reference):
    """The figure of a limit; a text where there is none: "none" where a row was not run, "unseen" where no round has both."""
    values = [float(row[figure]) for row in of(rows, selector)]
    if reference == "-":
        return max(values) if values else "none"
    others = [float(row[figure]) for row in of(rows, reference)]
    if not values or len(values) != len(others):
        return "none"
    ratios = [value / other for value, other in zip(values, others) if value and other]
    return statistics.median(ratios) if ratios else "unseen"


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    limits = sys.argv[2] if len(sys.argv) == 3 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream_limits.tsv")
    try:
        rows, bad = read_grid(sys.argv[1]), 0
        with open(limits, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip() or line.startswith("#"):
                    continue
                fields = line.rstrip("\n").split("\t")
                if len(fields) != 6 or fields[4] not in ("<=", ">="):
                    raise ValueError(f"{limits}:{number}: not text, selector, figure, reference, <= or >=, limit")
                text, selector, figure, reference, sign, limit = fields
                value = figure_of(rows, selector, figure, reference)
                holds = not isinstance(value, str) and (value <= float(limit) if sign == "<=" else value >= float(limit))
                bad += not holds
                print(f"{text}\t{value if isinstance(value, str) else f'{value:.6g}'}\t{sign}\t{limit}")
    except (OSError, ValueError, KeyError) as error:
        print(f"stream_limits.py: {error}", file=sys.stderr)
        return 2
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
