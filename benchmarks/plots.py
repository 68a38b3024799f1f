"""Draw the kept figures of all benchmarks as SVG files in docs/plots, measured and published side by side.

python -m benchmarks.plots
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from benchmarks.page import PLOTS, RESULTS, kept
from ivm.demo.bench.result import LABELS

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "ivm"  # equal figures give equal files

OURS, THEIRS, OTHER = "#1f6f8b", "#c9c9c9", "#e08e45"
COLORS = (OURS, THEIRS, OTHER, "#7a9e7e", "#5b5b8a", "#b05c7a")
#: Contestants look the same in every plot.
CONTESTANTS = dict(zip(LABELS.values(), (OURS, "#7a9e7e", THEIRS, OTHER), strict=True))


def color(legend: str, number: int) -> str:
    """Of a series, by who it is or else by its place."""
    return CONTESTANTS.get(legend, COLORS[number % len(COLORS)])


def bars(
    title: str, names: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str, log: bool = True
) -> Any:
    """Grouped horizontal bars, one group a name; None leaves a bar out."""
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.22 * len(names) * (len(series) + 0.6)))
    height = 0.8 / len(series)
    for number, (what, values) in enumerate(series.items()):
        places = [i + number * height for i in range(len(names))]
        shown = [v if v is not None else 0 for v in values]
        drawn = axes.barh(places, shown, height, label=what, color=color(what, number))
        axes.bar_label(drawn, [f"{v:.3g}" if v is not None else "" for v in values], fontsize=7, padding=2)
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(names))], names, fontsize=8)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    if log:
        axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def tpch(found: dict[str, Any]) -> Any:
    """A view's seconds by contestant."""
    contestants = {n: c["median"]["by_view_s"] for n, c in found["contestants"].items()}
    views = sorted({v for by_view in contestants.values() for v in by_view})
    series = {LABELS[n]: [by_view.get(v) for v in views] for n, by_view in contestants.items()}
    return bars(f"TPC-H SF{found['scale']:g}, {found['fractions'][0]:g} of the rows changed", views, series, "seconds")


def alone(found: dict[str, Any]) -> Any:
    """How many times faster than its rebuild each query is refreshed."""
    series = {LABELS[e]: list(of["speed_up"].values()) for e, of in found["engines"].items()}
    title = f"each query alone, SF{found['scale']:g}, {found['fractions'][0]:g} of the rows changed"
    return bars(title, list(found["views"]), series, "times faster than Spark's rebuild")


def lines(title: str, x: str, series: Mapping[str, Mapping[float, float]]) -> Any:
    """Seconds against something, both axes by orders of magnitude."""
    figure, axes = plt.subplots(figsize=(8, 4))
    for number, (legend, points) in enumerate(series.items()):
        axes.plot(list(points), list(points.values()), marker="o", label=legend, color=color(legend, number))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel("seconds")
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def change(found: dict[str, Any]) -> Any:
    """Seconds of all views by the share of rows that changed."""
    series = {
        f"{LABELS[engine]}: {way}": {float(share): at["median"][way] for share, at in of.items()}
        for engine, of in found["engines"].items()
        for way in ("planner", "incremental", "full")
    }
    return lines(f"cost against change, SF{found['scale']:g}", "share of rows changed", series)


def means(found: dict[str, Any]) -> Any:
    """How many times as long the same change takes without each mean."""
    names = [name for name in found["without"] if name != "all"]
    series = {
        LABELS[engine]: [of[name]["times"] if name in of else None for name in names]
        for engine, of in found["engines"].items()
    }
    title = f"without a mean, SF{found['scale']:g}, {found['fractions'][0]:g} of the rows changed"
    return bars(title, names, series, "times as long", log=False)


def same_change(measured: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that had the same changes as the smallest one, by size."""
    by_scale = sorted(measured, key=lambda found: found["scale"])
    return [f for f in by_scale if all(f[key] == by_scale[0][key] for key in ("fractions", "changes"))]


def by_size(measured: Sequence[Mapping[str, Any]]) -> Any:
    """Seconds of all views after a change by TPC-H's scale factor, of each contestant."""
    names = dict.fromkeys(n for found in measured for n in found["contestants"])
    series = {
        LABELS[n]: {f["scale"]: f["contestants"][n]["median"]["change_s"] for f in measured if n in f["contestants"]}
        for n in names
    }
    return lines(f"cost against size, {measured[0]['fractions'][0]:g} of the rows changed", "scale factor", series)


def degrees(found: dict[str, Any]) -> Any:
    names = ["count", "count_total"]
    return bars(
        f"degrees, {found['edges']:,} edges, {found['batch']:,} changed both ways",
        names,
        {"measured": [found[n]["median_s"] for n in names]},
        "seconds a round",
        log=False,
    )


def employees(found: dict[str, Any]) -> Any:
    runs = found["runs"]
    return bars(
        f"employees x salaries, {found['rows']:,} rows in batches of {found['batch']:,}"
        + (f", the first {found['first']}" if found.get("first") else ""),
        list(runs),
        {"measured": [r["seconds"] for r in runs.values()]},
        "seconds in all",
    )


def streams(found: dict[str, Any]) -> Any:
    sizes = [str(s) for s in found["batches"]]
    names, ours, theirs = [], [], []
    for name, program in found["programs"].items():
        for place, size in enumerate(sizes):
            names.append(f"{name}  {int(size):,}")
            ours.append(program["seconds"][size])
            theirs.append(
                found["published_seconds"][name][place] if place < len(found["published_seconds"][name]) else None
            )
    return bars(
        "from empty in logical batches, in process",
        names,
        {"measured (NumPy, one core)": ours, "published (2017, one worker)": theirs},
        "seconds in all",
    )


def from_empty(found: dict[str, Any]) -> Any:
    queries = found["queries"]
    series = {
        "measured, views over Delta": [q["per_s"] for q in queries.values()],
        "published peak": [q["published"][1] for q in queries.values()],
    }
    physical = f", {found['commits']} commits in each" if found["commits"] > 1 else ""
    engine = ", embedded" if found.get("engine") == "auto" else ""
    title = f"from empty in batches of {found['batch']:,}{physical}{engine}"
    return bars(title, list(queries), series, "updates a second")


def graphs(found: dict[str, Any]) -> Any:
    views = found["views"]
    series = {
        n: [v.get(k) for v in views.values()]
        for n, k in (("inserts", "insert_s"), ("recompute", "recompute_s"), ("deletes", "delete_s"))
    }
    return bars(f"recursion, {found['edges']:,} edges, {found['changes']} changed", list(views), series, "seconds")


def arrangements(found: dict[str, Any]) -> Any:
    sizes = [s for s in found["runs"]["scanned"] if s.isdigit()]
    series = {name: [run[s] for s in sizes] for name, run in found["runs"].items()}
    return bars(
        f"a slice of lineitem by part, SF{found['scale']:g}",
        [f"{int(s):,} parts changed" for s in sizes],
        series,
        "seconds a refresh",
        log=False,
    )


def by_epoch(found: dict[str, Any], title: str, panels: dict[str, dict[str, str]]) -> Any:
    """Lines by epoch, one panel above the other: what its axis says, and the figures of a look by their legend."""
    looks = found["looks"]
    epochs = [look["epoch"] for look in looks]
    figure, stacked = plt.subplots(len(panels), 1, sharex=True, figsize=(8, 0.5 + 2 * len(panels)))
    for axes, (what, series) in zip(stacked, panels.items(), strict=True):
        for number, (legend, key) in enumerate(series.items()):
            axes.plot(epochs, [look[key] for look in looks], label=legend, color=(OURS, OTHER)[number])
        axes.set_ylim(bottom=0)
        axes.set_ylabel(what)
        axes.legend(fontsize=7, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    stacked[-1].set_xlabel("epoch")
    stacked[0].set_title(title, loc="left", fontsize=10)
    figure.tight_layout()
    return figure


SECONDS = {"refresh, median": "refresh_s", "nothing to do": "no_op_s"}
FILES = {"files of the state": "files", "of these, Delta's logs": "log_files"}


def growth(found: dict[str, Any]) -> Any:
    """Seconds above, files below."""
    title = f"{found['epochs']:,} epochs of tiny changes, {found['views']} views"
    return by_epoch(found, title, {"seconds": SECONDS, "files": FILES})


def soak(found: dict[str, Any]) -> Any:
    """Seconds, files, memory and handles."""
    title = f"{found['epochs']:,} epochs of mixed DML, {found['views']} views over {found['sources']} sources"
    memory = {"this process": "python_mb", "the JVM": "jvm_mb"}
    used = {"refresh, median": "processor_s"}
    panels = {"processor seconds": used, "files": FILES, "MB resident": memory, "open handles": {"both": "handles"}}
    return by_epoch(found, title, panels)


#: Which plot a result file gets, by the beginning of its name.
PLOTTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "tpch": tpch,
    "alone": alone,
    "change": change,
    "means": means,
    "degrees": degrees,
    "employees": employees,
    "streams": streams,
    "from_empty": from_empty,
    "graphs": graphs,
    "arrangements": arrangements,
    "growth": growth,
    "soak": soak,
}


#: Benchmarks whose figures are drawn in the newest shape only.
CONTESTS = ("tpch", "alone", "change", "means")


def draw(name: str, figure: Any) -> None:
    """Write a plot."""
    path = PLOTS / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path)


def main() -> None:
    PLOTS.mkdir(exist_ok=True)
    newest = kept()
    for file in sorted(RESULTS.glob("*.json")):
        kind = next((k for k in PLOTTED if file.stem.startswith(k)), None)
        if kind is not None and (kind not in CONTESTS or file.stem in newest):
            draw(file.stem, PLOTTED[kind](json.loads(file.read_text())))
    sizes = same_change([f for f in newest.values() if f["kind"] == "tpch"])
    if len(sizes) > 1:
        draw("tpch_by_size", by_size(sizes))


if __name__ == "__main__":
    main()
