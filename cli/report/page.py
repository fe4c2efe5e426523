"""The tables, figures and page of `gradwire report`.

Times are over all ranks and iterations, except the first in each rank's log, which warms up. A value
that was not measured is NaN here and empty in CSV.
"""
import html
import math
import os
import statistics

from cli.report import document, figures
from cli.runs.quantiles import quantile
from cli.runs.tables import Column, csv_table

NAN = float("nan")
MOST_POINTS = 400  # of a line in a figure
EXPOSED = "exposed_communication"
HATCHES = {"data": "....", EXPOSED: "////"}  # for print without colors

BODY = """<h2>Runs</h2>
<div class="wide"><table>
{table}</table></div>
<p>Phases are means in milliseconds over all ranks and iterations except each rank's first. MB sent:
by a rank in an iteration.</p>
{bottlenecks}{notes}{figures}<p>Beside this page: {files}.</p>
"""


def number(value):
    return NAN if value is None else float(value)


def finite(values):
    return [value for value in map(number, values) if math.isfinite(value)]


def mean(values):
    values = finite(values)
    return math.fsum(values) / len(values) if values else NAN


def measured(values):
    """Returns the values that were measured."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def phase_means(phases, records):
    """Returns the mean of each phase, by name."""
    return {phase["name"]: mean(record["phase_seconds"].get(phase["name"]) for record in records)
            for phase in phases}


def own_work(record):
    work = number(record["iteration_seconds"]) - number(record["phase_seconds"][EXPOSED])
    return work if math.isfinite(work) else -1


def standard_error(values):
    """Returns that of the mean; NaN of fewer than two values."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else NAN


class Rank:
    """A rank's log, and the iterations that count: those after the first."""

    def __init__(self, log):
        self.number = log.rank
        self.adopted = log.adopted
        self.records = log.records
        self.timed = [record for record in self.records[1:]
                      if record["iteration_seconds"] is not None]

    def summary(self, phases, workers):
        """Returns the part of a summary that the bottleneck depends on."""
        carried = [len(workers.ranks_beside(self.number, record)) for record in self.timed]
        together = workers.ranks_beside(self.number, self.records[-1])
        return {"rank": self.number,
                "ranks_of_worker": measured({"mean": mean(carried)}) | {"last": together},
                "failures": {"recoveries": [{"adopted": workers.adopted(together)}]},
                "iteration_seconds": measured(
                    {"mean": mean(record["iteration_seconds"] for record in self.timed)}),
                "phase_seconds": measured(phase_means(phases, self.timed)),
                "own_work_seconds": measured(
                    {"standard_error": standard_error([own_work(one) for one in self.timed])})}

    def samples_per_second(self):
        seconds = math.fsum(record["iteration_seconds"] for record in self.timed)
        samples = sum(record["samples"] for record in self.timed)
        return samples / seconds if seconds > 0 else NAN


class Workers:
    """Which ranks a worker carried. A log does not say it, but all ranks of a worker have the same
    times in a step, to the last digit, and those of two workers never are the same."""

    def __init__(self, ranks, phases):
        self._phases = [phase["name"] for phase in phases]
        self._adopted = {rank.number: rank.adopted for rank in ranks}
        self._by_times = {}
        for rank in ranks:
            for record in rank.records:
                self._by_times.setdefault(self._times(record), []).append(rank.number)

    def ranks_beside(self, rank, record):
        """Returns all ranks that the worker of a rank carried in the step of its record."""
        return self._by_times[self._times(record)] if record["iteration_seconds"] else [rank]

    def adopted(self, ranks):
        return sorted({rank for carried in ranks for rank in self._adopted[carried]})

    def _times(self, record):
        phases = record["phase_seconds"]
        return record["step"], record["iteration_seconds"], *map(phases.get, self._phases)


def step_row(name, phases, records):
    """Returns a row with what all ranks logged of one step."""
    row = {
        "run": name,
        "step": records[0]["step"],
        "epoch": records[0]["epoch"],
        "ranks": len(records),
        "loss": mean(record["loss"] for record in records),
        "samples": sum(record["samples"] for record in records),
        "iteration_seconds": mean(record["iteration_seconds"] for record in records),
        "longest_iteration_seconds": max(
            finite(record["iteration_seconds"] for record in records), default=NAN),
        "slowest_rank": max(records, key=own_work)["rank"],
    }
    means = phase_means(phases, records)
    row.update((f"{phase}_seconds", value) for phase, value in means.items())
    for field in ("bytes_sent", "bytes_received"):
        row[field] = math.fsum(number(record[field]) for record in records)
    return row


class Run:
    """A run, its row, and the rows of its steps."""

    def __init__(self, logged, phases):
        self.listed = phases
        self.name = logged.name
        self.setup = logged.setup
        self._ranks = [Rank(log) for log in logged.logs]
        self.ranks = len(self._ranks)
        timed = [record for rank in self._ranks for record in rank.timed]
        self.iterations = [record["iteration_seconds"] for record in timed]
        records = [record for rank in self._ranks for record in rank.records]
        self.phases = phase_means(phases, timed)
        self.samples_per_second = math.fsum(rank.samples_per_second() for rank in self._ranks)
        by_step = {}
        for record in records:
            by_step.setdefault(record["step"], []).append(record)
        self.steps = [step_row(self.name, phases, by_step[step]) for step in sorted(by_step)]
        self.row = self._row(mean(record["bytes_sent"] for record in records))

    def summaries(self):
        """Returns the part of the ranks' summaries that the bottleneck depends on."""
        workers = Workers(self._ranks, self.listed)
        return [rank.summary(self.listed, workers) for rank in self._ranks]

    def percentile(self, percent):
        return quantile(self.iterations, percent / 100) if self.iterations else NAN

    def other(self):
        """Returns the part of an iteration that belongs to no phase."""
        stacked = finite(self.phases[phase["name"]] for phase in self.listed if phase["is_part"])
        return max(0.0, mean(self.iterations) - math.fsum(stacked))

    def _row(self, bytes_sent):
        losses = finite(step["loss"] for step in self.steps) or [NAN]
        total = mean(self.iterations)
        row = {
            "run": self.name,
            "setup": self.setup,
            "ranks": self.ranks,
            "steps": len(self.steps),
            "iteration_seconds_p50": self.percentile(50),
            "iteration_seconds_p90": self.percentile(90),
            "iteration_seconds_mean": total,
        }
        row.update((f"{phase}_seconds", value) for phase, value in self.phases.items())
        row["exposed_share"] = self.phases[EXPOSED] / total if total else NAN
        row["samples_per_second"] = self.samples_per_second
        row["bytes_sent_per_rank_and_step"] = bytes_sent
        row["first_loss"] = losses[0]
        row["last_loss"] = losses[-1]
        return row


def milliseconds(values):
    return [value * 1000 for value in values]


def iteration_figure(runs):
    return {
        "name": "iteration-time", "kind": "box", "title": "Iteration time",
        "x_label": "time of an iteration (ms)",
        "caption": "Boxes hold the middle half of the iterations of all ranks, except each rank's "
                   "first, with a line at the median; whiskers: 10th and 90th percentile.",
        "categories": [run.name for run in runs],
        "series": [{"values": [milliseconds(run.iterations) for run in runs]}],
    }


def phase_figure(runs):
    series = [{"name": phase["label"], "colour": phase["colour"],
               "hatch": HATCHES.get(phase["name"]),
               "values": milliseconds(run.phases[phase["name"]] for run in runs)}
              for phase in runs[0].listed if phase["is_part"]]
    series.append({"name": "other", "colour": "#c6ced6",
                   "values": milliseconds(run.other() for run in runs)})
    return {
        "name": "phases", "kind": "stacked", "title": "Where an iteration goes",
        "x_label": "mean time of an iteration (ms)",
        "caption": "Means of the phases of an iteration. Communication that runs beside forward "
                   "or backward takes no time of its own; only the exposed part is shown.",
        "categories": [run.name for run in runs],
        "series": series,
    }


def thinned(points):
    """Returns at most MOST_POINTS points, each the mean of its neighbors."""
    together = -(-len(points) // MOST_POINTS)
    groups = [points[i:i + together] for i in range(0, len(points), together)]
    return [(mean(x for x, _ in group), mean(y for _, y in group)) for group in groups]


def line(points, **more):
    return {"x": [x for x, _ in points], "y": [y for _, y in points], **more}


def loss_figure(runs):
    series = []
    for run in runs:
        points = [(step["step"], step["loss"]) for step in run.steps
                  if math.isfinite(step["loss"])]
        if points:
            series.append(line(thinned(points), name=run.name))
    return {
        "name": "loss", "kind": "lines", "title": "Loss", "x_label": "step", "y_label": "loss",
        "caption": "Mean of the ranks' batches, by step; in a long run, means of neighboring "
                   "steps.",
        "series": series,
    }


def scaling_figure(runs):
    """Shows the setups that ran with several numbers of ranks."""
    setups = {}
    for run in runs:
        setups.setdefault(run.setup, []).append((run.ranks, run.samples_per_second))
    series = []
    for setup, points in sorted(setups.items()):
        points.sort()
        (least, speed), (most, _) = points[0], points[-1]
        if least == most:
            continue
        linear = [(least, speed), (most, speed * most / least)]
        title = {} if series else {"name": "linear"}
        series += [line(points, name=setup), line(linear, dashed=True, **title)]
    return {
        "name": "scaling", "kind": "lines", "title": "Scaling", "x_label": "ranks",
        "y_label": "samples/s", "y_from_zero": True,
        "caption": "Samples a second of all ranks together, by their number; dashed: in "
                   "proportion to the ranks.",
        "series": series,
    }


def make_figures(runs):
    """Returns the figures for which the runs have values, such as two iterations for times."""
    timed = [run for run in runs if run.iterations]
    made = [iteration_figure(timed), phase_figure(timed)] if timed else []
    made += [loss_figure(runs), scaling_figure(timed)]
    return [figure for figure in made if figure["series"]]


def csv_text(rows):
    columns = [Column(field, "") for field in dict.fromkeys(field for row in rows for field in row)]
    return csv_table(columns, [{field: None if value != value else value
                                for field, value in row.items()} for row in rows])


def shown(value, digits):
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def cells(run):
    """Returns (title, text) of each column of the page's table."""
    row = run.row
    phases = [(phase["title"], shown(run.phases[phase["name"]] * 1000, 1))
              for phase in run.listed]
    return [("run", run.name), ("ranks", str(run.ranks)), ("steps", str(len(run.steps))),
            ("median ms", shown(row["iteration_seconds_p50"] * 1000, 1)),
            ("p90 ms", shown(row["iteration_seconds_p90"] * 1000, 1)), *phases,
            ("exposed %", shown(row["exposed_share"] * 100, 0)),
            ("samples/s", shown(run.samples_per_second, 1)),
            ("MB sent", shown(row["bytes_sent_per_rank_and_step"] / 1e6, 2)),
            ("first loss", shown(row["first_loss"], 4)),
            ("last loss", shown(row["last_loss"], 4))]


def sentences(title, texts):
    return f"{title}<ul>\n{document.items(texts)}</ul>\n" if texts else ""


def page(runs, bottlenecks, notes, drawn, files):
    """Returns the page. `bottlenecks`: a sentence for each run; `drawn`: figures with their SVG."""
    return document.page("Gradwire report", BODY.format(
        table=document.table_rows([title for title, _ in cells(runs[0])],
                                  [[text for _, text in cells(run)] for run in runs]),
        bottlenecks=sentences("", [f"{run.name}: {bottleneck}"
                                   for run, bottleneck in zip(runs, bottlenecks)]),
        notes=sentences("<h2>Notes</h2>\n", notes),
        figures="".join(document.figure(figure["title"], figure["caption"], svg)
                        for figure, svg in drawn),
        files=html.escape(", ".join(files))))


def files_of(runs, bottlenecks, notes, out):
    """Returns {name: content} of the files beside the page, and of the page, which is the last."""
    stem = os.path.splitext(out)[0]
    files = {f"{stem}.runs.csv": csv_text([run.row for run in runs]).encode(),
             f"{stem}.steps.csv": csv_text([step for run in runs for step in run.steps]).encode()}
    drawn = []
    for figure in make_figures(runs):
        images = figures.render(figure)
        drawn.append((figure, images["svg"]))
        files.update((f"{stem}.{figure['name']}.{kind}", image) for kind, image in images.items())
    names = [os.path.basename(name) for name in files]
    files[out] = page(runs, bottlenecks, notes, drawn, names).encode(errors="replace")
    return files
