"""The HPC lab's Tables 1 to 3 and Q1's, for both ways to train on several devices, and its figures.
"""
from cli.experiment import lab_answers
from cli.experiment.lab_sweep import ring_bytes
from cli.experiment.study import bars, line, lines, report_part, tabulate

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # by batch
PARTS = {"computation": {"name": "computation", "colour": "#0072b2"},
         "rest": {"name": "the rest", "colour": "#d55e00", "hatch": "////"}}  # members of a Cell


class Cell:
    """A row of the tables: one way, and a number of devices and a batch of each."""

    def __init__(self, measured, devices, batch):
        self.way, self.devices, self.batch = measured.way.title, devices, batch
        self.epoch = measured.seconds[devices, batch]
        self.speedup = measured.speedup(devices, batch)
        self.computation = measured.computation[batch] / devices
        self.rest = measured.rest(devices, batch)
        self.share = 100 * self.rest / self.epoch
        self.transfer = measured.transfer_seconds(devices, batch)  # of an iteration
        self.transfers = self.transfer * measured.steps(devices, batch)
        self.bytes = round(ring_bytes(devices, measured.sizes.gradient))
        self.sent = measured.results[devices, batch].sent_per_iteration()
        self._exchange_of = measured.exchange_seconds

    @property
    def exchange(self):
        """Returns the seconds of one exchange of the gradient."""
        return self._exchange_of(self.devices, self.batch)

    @property
    def gb_per_s(self):
        return self.bytes / 1e9 / self.exchange


def column(field, title, digits=None):
    """Returns a column of a Cell's member."""
    return (field, title, lambda cell: getattr(cell, field), *([] if digits is None else [digits]))


PLACE = (column("way", "way"), column("devices", "devices"), column("batch", "batch of each"))


def cells(ways, several=False):
    return [Cell(measured, *pair) for measured in ways
            for pair in (measured.several() if several else measured.seconds)]


def first_table(measured):
    return tabulate("q1", "Seconds of an epoch by batch, one device, without loading", "Q1",
                    measured.computation.items(),
                    [("batch", "batch", lambda batch, _: batch),
                     ("iterations", "iterations", lambda batch, _: measured.steps(1, batch)),
                     ("seconds", "epoch (s)", lambda _, seconds: seconds, 2)],
                    f"Q1: {lab_answers.longer_or_shorter(measured)} "
                    f"{lab_answers.end_of_sweep(measured)}")


def speedup_table(ways, baselines):
    return tabulate("table-1", "Time of an epoch and speed-up", "Table 1, Q2", cells(ways),
                    [*PLACE, column("epoch", "epoch (s)", 2), column("speedup", "speed-up", 2)],
                    f"{baselines}\n\nQ2: {lab_answers.kind_of_scaling(ways)}")


def split_table(ways):
    return tabulate("table-2", "Computation and communication of an epoch", "Table 2, Q3",
                    cells(ways, several=True),
                    [*PLACE, column("computation", "computation, from Q1 (s)", 2),
                     column("rest", "the rest (s)", 2), column("share", "the rest (%)", 0),
                     column("transfers", "transfers under way or waiting, measured (s)", 2)],
                    lab_answers.way_of_measuring())


@report_part
def bandwidth_table(ways, link_gbit):
    over_network = [measured for measured in ways if not measured.way.together]
    return tabulate("table-3", "Bandwidth", "Table 3, Q3", cells(ways, several=True),
                    [*PLACE, column("bytes", "2(N−1)/N · S, each device"),
                     column("sent", "sent by all, measured"),
                     column("transfer", "under way or waiting, of an iteration (s)", 4),
                     column("exchange", "T (s)", 4), column("gb_per_s", "GB/s in T", 3)],
                    "\n\n".join([*(lab_answers.formulas(measured, link_gbit)
                                   for measured in over_network), lab_answers.between_devices()]))


def speedup_picture(measured):
    devices = sorted({devices for devices, _ in measured.seconds})
    series = []
    for batch, colour in zip(measured.batches, COLOURS):
        counts = [count for count in devices if (count, batch) in measured.seconds]
        series.append(line(f"batch {batch}", counts,
                           [measured.speedup(count, batch) for count in counts], colour=colour))
    series.append(line("linear", devices, devices, colour="#7f7f7f", dashed=True))
    return lines(f"speed-up-{measured.way.name}", f"Speed-up by devices, {measured.way.title}",
                 "Table 1, Q2", ("devices", "speed-up"), series, y_from_zero=True)


def split_picture(measured):
    """Returns a figure of Table 2. Each bar ends at the measured epoch, so computation is cut there."""
    shown = cells([measured], several=True)
    series = [{"values": values, **PARTS[part]} for part, values in (
        ("computation", [min(cell.computation, cell.epoch) for cell in shown]),
        ("rest", [max(0, cell.rest) for cell in shown]))]
    above = [f"{cell.devices} × {cell.batch}" for cell in shown if cell.rest < 0]
    cut = (f" Q1's computation is above the whole epoch, which is impossible, for {', '.join(above)}."
           if above else "")
    return bars(f"split-{measured.way.name}",
                f"Computation and the rest of an epoch, {measured.way.title}", "Table 2, Q3",
                "time of an epoch (s)", [f"{cell.devices} × {cell.batch}" for cell in shown],
                series, "Devices × batch of each. Computation: Q1's epoch over the devices. The bar ends "
                f"at the measured epoch.{cut}", kind="stacked")
