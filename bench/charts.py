#!/usr/bin/python3
"""charts.py --input TABLE --out DIR [--platform NAME] [--extra CSV]... [--label TEXT]

Draws the tables of vfs_bench: one SVG, DIR/vfs-NAME.svg, with a panel for each scenario: how fast each target is by
stdio of the same run (1 is as fast), with the fewest and the most threads of the table.

  --input     what vfs_bench wrote by --csv or by --md; of Markdown the first table with its columns, so that a document
              that holds the table will do
  --extra     more rows (traces, another run's scenarios); rows of the same scenario, target and threads are replaced
  --platform  names the file and stands in the title (linux)
  --label     a second line of the title: machine, date, commit
  --list      prints the rows as CSV instead of drawing
  --summary   prints Markdown instead: a line a target, a column a scenario, "ratio / ratio" with the fewest and the most threads

Exit status: 0 done, 1 a table cannot be read or has no ratio to draw, 2 usage.
"""
import argparse
import csv
import io
import os
import sys

COLUMNS = ["scenario", "target", "threads", "ops_per_s", "mib_per_s", "p50_us", "p99_us", "vs_stdio"]
MD_COLUMNS = ["scenario", "target", "threads", "ops/s", "MiB/s", "p50 µs", "p99 µs", "vs stdio"]
FAMILIES = [  # prefix, colour of few threads, colour of many
    ("base:", "#9aa0a6", "#c7cacd"),
    ("limit:", "#5f6368", "#85898d"),
    ("peer:", "#d98032", "#ecb98c"),
    ("vfs:", "#2b6cb0", "#8fb8de"),
]
PANELS_A_ROW = 3


class TableError(Exception):
    """A table that is none; the text says where and why."""


def number(text, where):
    """A figure, or None for "-"."""
    text = text.strip()
    if text == "-":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise TableError(f"{where}: {text!r} is no number") from error


def row_of(cells, where):
    """One row as a dictionary of COLUMNS."""
    if len(cells) != len(COLUMNS):
        raise TableError(f"{where}: {len(cells)} columns, {len(COLUMNS)} wanted")
    row = dict(zip(COLUMNS, (cell.strip() for cell in cells)))
    threads = number(row["threads"], where)
    if threads is None or threads < 1 or threads != int(threads):
        raise TableError(f"{where}: {row['threads']!r} threads")
    row["threads"] = int(threads)
    for name in COLUMNS[3:]:
        row[name] = number(row[name], where)
    return row


def read_csv(text, name):
    """The rows of a CSV table."""
    lines = list(csv.reader(io.StringIO(text)))
    if not lines or lines[0] != COLUMNS:
        raise TableError(f"{name}: the first line is not {','.join(COLUMNS)}")
    return [row_of(cells, f"{name}:{i}") for i, cells in enumerate(lines[1:], 2) if cells]


def md_cells(line):
    """The cells of a Markdown row, or None."""
    line = line.strip()
    if not (line.startswith("|") and line.endswith("|")):
        return None
    return [cell.strip() for cell in line[1:-1].split("|")]


def read_md(text, name):
    """The rows of the first table that has the columns."""
    rows, inside = [], False
    for i, line in enumerate(text.splitlines(), 1):
        cells = md_cells(line)
        if inside and cells is None:
            break
        if cells == MD_COLUMNS:
            inside = True
        elif inside and set("".join(cells)) - set("-: "):
            rows.append(row_of(cells, f"{name}:{i}"))
    if not inside:
        raise TableError(f"{name}: no table with the columns {', '.join(MD_COLUMNS)}")
    return rows


def read_table(path):
    """CSV or Markdown, whichever it is."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from error
    name = os.path.basename(path)
    return read_csv(text, name) if text.startswith(COLUMNS[0] + ",") else read_md(text, name)


def merged(tables):
    """All rows in the order of their first coming; a later table replaces rows of an earlier one."""
    rows = {}
    for table in tables:
        for row in table:
            rows[row["scenario"], row["target"], row["threads"]] = row
    return list(rows.values())


def in_order(rows, column):
    """The values of a column, each once, in order."""
    return list(dict.fromkeys(row[column] for row in rows))


def colour_of(target, many):
    """The colour of a bar."""
    for prefix, few_colour, many_colour in FAMILIES:
        if target.startswith(prefix):
            return many_colour if many else few_colour
    return "#444444"


def draw_panel(axes, scenario, rows, threads):
    """A scenario: a pair of bars for each target."""
    ratios = {(row["target"], row["threads"]): row["vs_stdio"] for row in rows if row["scenario"] == scenario}
    targets = [name for name in in_order(rows, "target")
               if name != "base:stdio" and any(ratios.get((name, count)) for count in threads)]
    height = 0.8 / len(threads)
    for place, target in enumerate(targets):
        for i, count in enumerate(threads):
            ratio = ratios.get((target, count))
            if not ratio:
                continue
            y = place - 0.4 + height * (i + 0.5)
            axes.barh(y, ratio - 1, height, left=1, color=colour_of(target, i > 0))
            axes.text(ratio, y, f" {ratio:.3g} ", va="center", ha="left" if ratio >= 1 else "right", fontsize=5)
    axes.axvline(1, color="#202124", linewidth=0.8)
    axes.set_xscale("log")
    values = [ratio for ratio in ratios.values() if ratio] + [1]
    axes.set_xlim(min(values) / 3, max(values) * 3)
    axes.set_yticks(range(len(targets)), targets, fontsize=6)
    axes.set_ylim(len(targets) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=6)
    axes.set_title(scenario, fontsize=8, loc="left", fontweight="bold")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(rows, platform, label, out):
    """The whole picture; returns its path."""
    try:
        import matplotlib
    except ImportError as error:
        raise TableError("matplotlib is not installed (python3-matplotlib)") from error
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "larder"  # the same table gives the same file
    from matplotlib import pyplot

    drawn = [row for row in rows if row["vs_stdio"]]
    counts = sorted(set(row["threads"] for row in drawn))
    if not counts:
        raise TableError("no row has a ratio to stdio")
    threads = sorted({counts[0], counts[-1]})
    scenarios = in_order(drawn, "scenario")
    targets = len(in_order(drawn, "target"))
    lines = -(-len(scenarios) // PANELS_A_ROW)
    figure, grid = pyplot.subplots(lines, PANELS_A_ROW, squeeze=False,
                                   figsize=(5.2 * PANELS_A_ROW, lines * (0.9 + 0.22 * targets)))
    panels = [axes for line in grid for axes in line]
    for axes, scenario in zip(panels, scenarios):
        draw_panel(axes, scenario, drawn, threads)
    for axes in panels[len(scenarios):]:
        axes.remove()
    many = f"; dark: {threads[0]} thread{'s' if threads[0] > 1 else ''}, light: {threads[-1]}" if len(threads) > 1 else ""
    figure.suptitle(f"Speed by stdio, {platform} (1 = as fast as stdio, logarithmic{many})" + (f"\n{label}" if label else ""),
                    fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.6 / figure.get_figheight()))
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"vfs-{platform}.svg")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def short(ratio):
    """A ratio in as few digits as say something."""
    if ratio is None:
        return "-"
    return f"{ratio:.0f}" if ratio >= 20 else f"{ratio:.1f}" if ratio >= 5 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def print_summary(rows):
    """All ratios as one Markdown table for each kind of scenario (the word before the dot)."""
    ratios = {(row["target"], row["scenario"], row["threads"]): row["vs_stdio"] for row in rows}
    counts = sorted(set(row["threads"] for row in rows))
    threads = sorted({counts[0], counts[-1]}) if counts else []
    for kind in dict.fromkeys(name.split(".")[0] for name in in_order(rows, "scenario")):
        scenarios = [name for name in in_order(rows, "scenario") if name.split(".")[0] == kind]
        print(f"\n| vs stdio, {' / '.join(map(str, threads))} threads | " + " | ".join(scenarios) + " |")
        print("|---|" + "--:|" * len(scenarios))
        for target in in_order(rows, "target"):
            cells = [[ratios.get((target, name, count)) for count in threads] for name in scenarios]
            if target != "base:stdio" and any(value for cell in cells for value in cell):
                texts = [" / ".join(map(short, cell)) if any(cell) else "" for cell in cells]
                print(f"| {target} | " + " | ".join(texts) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="linux")
    parser.add_argument("--input", required=True)
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--out", default=".")
    parser.add_argument("--label", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    if not args.platform or "/" in args.platform:
        parser.error("--platform: a name without a slash")
    try:
        rows = merged(read_table(path) for path in [args.input] + args.extra)
        if args.list:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(COLUMNS)
            for row in rows:
                writer.writerow("-" if row[name] is None else row[name] for name in COLUMNS)
        elif args.summary:
            print_summary(rows)
        else:
            print(draw(rows, args.platform, args.label, args.out))
    except TableError as error:
        print(f"charts.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
