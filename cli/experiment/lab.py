"""The HPC lab: computation against communication of data-parallel training."""
from cli.experiment import lab_data, large_batch
from cli.experiment.lab_data import EXCHANGE_RANKS
from cli.experiment.study import (Experiment, Findings, Table, judge, judge_time, line, lines,
                                  tabulate)
from cli.experiment.work import COSTS, DDP, Training, fits, whole_epochs
from cli.runs.quantiles import mean
from cli.runs.tables import Column
from cli.runs.training import steps_per_epoch

SOURCE = "the HPC lab on computation and communication of data-parallel training"
SAMPLES = 50000  # of an epoch
GRADIENT_BYTES = COSTS["vgg11"].bytes
BUFFER_BYTES = 22080
MODEL = "vgg11"
SCALES = {
    "quick": {"about": "Batches of 8 and 32, some iterations in place of 2 epochs; times of an "
                       "epoch are those of its iterations, times their number. Q4 with LeNet on "
                       "Fashion-MNIST.",
              "batches": (8, 32), "devices": (1, 2, 4), "iterations": 5,
              "large": large_batch.SCALES["quick"]},
    "full": {"about": "As the lab says: batches of 32, 128, 512 … until memory ends, 2 epochs each "
                      "of which the 2nd is reported. The 4 devices are 4 ranks.",
             "batches": (32, 128, 512, 2048, 8192), "devices": (1, 2, 4), "iterations": 5,
             "epochs": 2, "large": large_batch.SCALES["full"]},
    "tiny": {"about": "For tests.", "hidden": True,
             "batches": (2, 4), "devices": (1, 2), "iterations": 2,
             "large": large_batch.SCALES["tiny"]}}
LARGE = (large_batch.SMALL, large_batch.PLAIN)  # of Q4


def name_of(devices, batch):
    return f"{devices}-devices-batch-{batch}"


def batches(setting):
    """Returns the batches that fit in the memory of one device."""
    return [batch for batch in setting.scale["batches"] if fits(setting, MODEL, 1, batch)]


def pairs(setting):
    return [(devices, batch) for devices in setting.scale["devices"]
            for batch in batches(setting) if fits(setting, MODEL, devices, batch)]


def runs(setting):
    planned = []
    for devices, batch in pairs(setting):
        epochs, iterations = whole_epochs(setting.scale, SAMPLES, devices, batch)
        planned.append(Training(
            name_of(devices, batch), f"{devices} device(s), batch {batch} each", devices, batch,
            iterations, ("--sync", "none") if devices == 1 else DDP, epochs=epochs,
            sweep=f"{devices} devices"))
    return [*planned,
            *(large_batch.way_run(setting, setting.scale["large"], way) for way in LARGE),
            *lab_data.runs(setting)]


def last_records(rank):
    """Returns records of the 2nd epoch; if there is none, all except the first iteration."""
    return [record for record in rank.records if record.get("epoch") == 1] or rank.records[1:]


def epoch_seconds(result, devices, batch, with_loading=True):
    seconds = mean([record["iteration_seconds"] -
                    (0 if with_loading else record["phase_seconds"]["data"])
                    for rank in result.ranks for record in last_records(rank)])
    return seconds * steps_per_epoch(SAMPLES, devices, batch)


def communication_seconds(result):
    """Returns seconds of an iteration in which a transfer was under way."""
    return mean([record["phase_seconds"]["communication"]
                 for rank in result.ranks for record in last_records(rank)])


def ring_bytes(devices, size):
    """Returns what each of `devices` sends to average `size` bytes (Patarasuk and Yuan, 2009)."""
    return 2 * (devices - 1) / devices * size


class Measured:
    """Times by devices and batch."""

    def __init__(self, setting, results):
        self.scale = setting.scale
        # Memory may have ended a sweep earlier.
        self.batches = [batch for batch in batches(setting) if name_of(1, batch) in results]
        self.results = {(devices, batch): results[name_of(devices, batch)]
                        for devices, batch in pairs(setting)
                        if batch in self.batches and name_of(devices, batch) in results}
        self.seconds = {pair: epoch_seconds(result, *pair)
                        for pair, result in self.results.items()}
        self.computation = {batch: epoch_seconds(self.results[1, batch], 1, batch, False)
                            for batch in self.batches}

    def several(self):
        return [(devices, batch) for devices, batch in self.seconds if devices > 1]

    def speedup(self, devices, batch):
        return self.seconds[1, batch] / self.seconds[devices, batch]


def first_table(measured):
    return tabulate("q1", "Seconds of an epoch by batch, one device, without loading", "Q1",
                    measured.computation.items(),
                    [("batch", "batch", lambda batch, _: batch),
                     ("seconds", "epoch (s)", lambda _, seconds: seconds, 2)],
                    end_of_sweep(measured))


def end_of_sweep(measured):
    largest = measured.batches[-1]
    beyond = [batch for batch in measured.scale["batches"] if batch > largest]
    if not beyond:
        return f"Memory would have allowed more than {largest}."
    need = beyond[0] * COSTS[MODEL].memory_per_sample / 1e9
    return (f"Memory ends the sweep at {largest}: a batch of {beyond[0]} needs about {need:.0f} GB "
            "on each device.")


def speedup_table(measured):
    return tabulate(
        "table-1", "Time of an epoch and speed-up", "Table 1, Q2", measured.seconds.items(), [
            ("devices", "devices", lambda pair, _: pair[0]),
            ("batch", "batch of each", lambda pair, _: pair[1]),
            ("seconds", "epoch (s)", lambda _, seconds: seconds, 2),
            ("speedup", "speed-up", lambda pair, _: measured.speedup(*pair), 2)],
        "Each device keeps its batch, so the work of an iteration grows with the devices: "
        f"this is weak scaling. {strong_point(measured)}")


def strong_point(measured):
    """Finds a point of strong scaling in the same runs."""
    for devices, batch in measured.several():
        if (1, devices * batch) in measured.seconds:
            alone, shared = measured.seconds[1, devices * batch], measured.seconds[devices, batch]
            return (f"Strong scaling needs no further run: a total batch of {devices * batch} took "
                    f"{alone:.2f} s on 1 device and {shared:.2f} s on {devices} of {batch} each, "
                    f"a speed-up of {alone / shared:.2f}.")
    return "Strong scaling needs two runs with the same total batch, and there are none."


def split_table(measured):
    def computation(devices, batch):
        return measured.computation[batch] / devices

    def transfers(devices, batch):
        seconds = communication_seconds(measured.results[devices, batch])
        return seconds * steps_per_epoch(SAMPLES, devices, batch)

    return tabulate(
        "table-2", "Computation and communication of an epoch", "Table 2, Q3", measured.several(), [
            ("devices", "devices", lambda devices, _: devices),
            ("batch", "batch of each", lambda _, batch: batch),
            ("computation", "computation, from Q1 (s)", computation, 2),
            ("rest", "the rest (s)", lambda *pair: measured.seconds[pair] - computation(*pair), 2),
            ("transfers", "transfers under way, measured (s)", transfers, 2)],
        "Computation: Q1's epoch over the devices. The rest of an epoch includes, on one machine, "
        "the wait for its cores.")


def bandwidth_rows(measured):
    rows = []
    for devices, batch in measured.several():
        size = ring_bytes(devices, GRADIENT_BYTES)
        seconds = communication_seconds(measured.results[devices, batch])
        rows.append({"devices": devices, "batch": batch, "bytes": round(size), "seconds": seconds,
                     "gb_per_s": size / 1e9 / seconds})
    return rows


def bandwidth_table(measured):
    return Table("table-3", "Bandwidth", "Table 3, Q3",
                 [Column("devices", "devices"), Column("batch", "batch of each"),
                  Column("bytes", "2(N−1)/N · bytes"),
                  Column("seconds", "transfers of an iteration (s)", 4),
                  Column("gb_per_s", "GB/s", 3)], bandwidth_rows(measured))


def bytes_claim(results):
    planned = round(EXCHANGE_RANKS * ring_bytes(EXCHANGE_RANKS, GRADIENT_BYTES))
    gradients, buffers = lab_data.gradients_sent(results), lab_data.buffers_sent(results)
    return judge("Bytes sent are those of the plan: 2(N−1) times the gradient, and the buffers to "
                 "every other rank.", "Q6, and Table 3's formula",
                 (gradients, buffers) == (planned, (EXCHANGE_RANKS - 1) * BUFFER_BYTES),
                 f"gradients {gradients:,}, planned {planned:,}; buffers {buffers:,}, planned "
                 f"{(EXCHANGE_RANKS - 1) * BUFFER_BYTES:,}")


def faster_claim(setting, measured):
    largest = max(devices for devices, _ in measured.seconds)
    times = [(batch, measured.seconds[1, batch], seconds)
             for (devices, batch), seconds in measured.seconds.items() if devices == largest]
    return judge_time(
        setting, f"An epoch takes less time on {largest} devices than on 1, at each batch.",
        "Table 1", all(shared < alone for _, alone, shared in times),
        ", ".join(f"batch {batch}: {shared:.1f} s after {alone:.1f} s"
                  for batch, alone, shared in times))


def speedup_picture(measured):
    devices = sorted({devices for devices, _ in measured.seconds})
    series = []
    for batch in measured.batches:
        counts = [count for count in devices if (count, batch) in measured.seconds]
        series.append(line(f"batch {batch}", counts,
                           [measured.speedup(count, batch) for count in counts]))
    series.append(line("linear", devices, devices, colour="#7f7f7f", dashed=True))
    return lines("speed-up", "Speed-up by devices", "Table 1, Q2", ("devices", "speed-up"),
                 series, y_from_zero=True)


def find(setting, results):
    measured = Measured(setting, results)
    large = setting.scale["large"]
    notes = ["A device is a rank. Remedies for large batches (Q4): gradwire experiment "
             "large-batch."]
    if not setting.has_hosts:
        notes.append("All ranks shared the cores of this machine, so the speed-ups say nothing about "
                     "separate devices.")
    return Findings(
        [bytes_claim(results), lab_data.order_claim(results), lab_data.drift_claim(results),
         large_batch.worse_claim(results, large),
         faster_claim(setting, measured)],
        [first_table(measured), speedup_table(measured), split_table(measured),
         bandwidth_table(measured),
         large_batch.last_epoch_table(setting, large, results, LARGE), lab_data.order_table(results),
         lab_data.kinds_table(results), lab_data.drift_table(results),
         speedup_picture(measured)], notes)


EXPERIMENT = Experiment("lab", "Computation against communication", SOURCE, SCALES, runs, find, 4)
