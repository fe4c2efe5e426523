"""The HPC lab: computation against communication of data-parallel training."""
import dataclasses

from cli.experiment import lab_answers, lab_data, lab_sweep, lab_tables, large_batch
from cli.experiment.devices import NEEDS_CORES
from cli.experiment.lab_data import EXCHANGE_RANKS
from cli.experiment.lab_sweep import (DEVICES, LOADERS, RANKS, SIZES, WAYS, Measured,
                                      counts_with_cores, device_threads, most_with_cores,
                                      ring_bytes)
from cli.experiment.study import (MADE_UP, Experiment, Findings, Statement, counted, decide,
                                  decide_time, made_up_note, report_part)

SOURCE = "the HPC lab on computation and communication of data-parallel training"
MODEL = {"model": "vgg11"}  # a choice: the sheet takes that of an earlier lab
SCALES = {
    "quick": {"about": "Batches of 8, 16 and 32, some iterations in place of 2 epochs; times of an "
                       "epoch are those of its iterations, times their number. Q4 with LeNet on "
                       "Fashion-MNIST.", **MODEL,
              "batches": (8, 16, 32), "devices": (1, 2, 4), "iterations": 5, "batch-size": 8,
              "large": large_batch.SCALES["quick"]},
    "full": {"about": "As the lab says: batches of 32, 128, 512 … until memory ends, 2 epochs each "
                      "of which the 2nd is reported. The 4 devices are parts of one process, and "
                      "then 4 ranks.", **MODEL,
             "batches": (32, 128, 512, 2048, 8192), "devices": (1, 2, 4), "iterations": 5,
             "batch-size": 32, "epochs": 2, "large": large_batch.SCALES["full"]},
    "tiny": {"about": "For tests.", "hidden": True, **MODEL,
             "batches": (2, 4), "devices": (1, 2), "iterations": 2, "batch-size": 2,
             "large": large_batch.SCALES["tiny"]}}
LARGE = (large_batch.SMALL, large_batch.PLAIN)  # of Q4
HOSTS = "a host for each rank (--hosts, --hostfile)"
CORES = "a core for each of two devices"
BYTES = Statement(
    "bytes", "Bytes sent are those of the plan: 2(N−1) times the gradient, and the buffers to "
    "every other rank.", "Q6, and Table 3's formula",
    "bytes that all ranks send in an iteration",
    "both are the bytes of the plan, exactly")
WORSE = Statement(
    "worse", "Without a remedy, a large batch has the higher training loss after as many epochs.",
    "Q4", "training loss of the last epoch", "it is higher with the large batch than with the small")
LONGER = Statement(
    "batch", "A larger batch makes an epoch on one device shorter.", "Q1",
    "time of an epoch on one device, without loading",
    "it falls from each batch to the next larger one", "memory for two batches")
FASTER_RANKS = Statement(
    "faster-ranks", "An epoch takes less time on the most ranks than on one, at each batch.",
    "Table 1", "time of an epoch", "it is less at each batch", HOSTS)
FASTER_DEVICES = Statement(
    "faster-devices", "With DataParallel, an epoch takes less time on several devices than on one, "
    "at each batch.", "Table 1", "time of an epoch, on the most devices that have cores of their own",
    "it is less at each batch", CORES)
STRONG_RANKS = Statement(
    "strong-ranks", "Strong scaling gives ranks less speed-up than weak scaling.", "Q2",
    "speed-up from the same one-device batch, total or batch of each kept",
    "that of the kept total batch is less", HOSTS)
STRONG_DEVICES = dataclasses.replace(
    STRONG_RANKS, key="strong-devices",
    needs="a core for each device of a pair of runs with the same total batch",
    text="Strong scaling gives DataParallel's devices less speed-up than weak scaling.")
SHARE = Statement(
    "share", "The larger the batch, the smaller communication's share of an epoch.", "Q3, Table 2",
    "part of an epoch on the most ranks that is not computation",
    "it falls from each batch to the next larger one", HOSTS)
STATEMENTS = (BYTES, lab_data.ORDER, lab_data.DRIFT, WORSE, LONGER, FASTER_DEVICES, FASTER_RANKS,
              STRONG_DEVICES, STRONG_RANKS, SHARE)
NO_PAIR = "needs two runs with the same total batch"
NEEDS_BATCHES = "needs two batches"
NEEDS_MEMORY = "needs memory for one batch"


def large_run(setting, way):
    work = large_batch.way_run(setting, setting.scale["large"], way)
    return dataclasses.replace(work, options=(*work.options, *LOADERS))


def runs(setting):
    return [*lab_sweep.runs(setting), *lab_sweep.exchange_runs(setting), *(large_run(setting, way) for way in LARGE),
            *lab_data.runs(setting)]


@report_part
def bytes_claim(results):
    sizes = results[SIZES]
    planned = (round(EXCHANGE_RANKS * ring_bytes(EXCHANGE_RANKS, sizes.gradient)),
               (EXCHANGE_RANKS - 1) * sizes.buffers)
    sent = lab_data.gradients_sent(results), lab_data.buffers_sent(results)
    return decide(BYTES, sent == planned, f"gradients {sent[0]:,}, planned {planned[0]:,}; buffers "
                  f"{sent[1]:,}, planned {planned[1]:,}")


@report_part
def worse_claim(results, sizes):
    small, large = (large_batch.losses_by_epoch(results, way)[-1] for way in LARGE)
    return decide(WORSE, small < large, f"small batch {small:.4f}, large batch {large:.4f}",
                  large_batch.needs_epochs(sizes))


def longer_claim(measured):
    return decide(LONGER, measured.is_shorter_with_batch(),
                  ", ".join(f"batch {batch}: {seconds:.1f} s"
                            for batch, seconds in measured.computation.items()),
                  "" if len(measured.batches) > 1 else NEEDS_BATCHES, measured.disturbed)


def times_on(measured, devices):
    """Returns (batch, seconds on one device, seconds on `devices`) of each batch."""
    return [(batch, measured.seconds[1, batch], seconds)
            for (count, batch), seconds in measured.seconds.items() if count == devices]


def shown_times(times, devices):
    return ", ".join(f"batch {batch}: {shared:.1f} s on {devices} instead of {alone:.1f} s on 1"
                     for batch, alone, shared in times)


def faster_ranks_claim(setting, measured):
    devices = max((devices for devices, _ in measured.seconds), default=0)
    times = times_on(measured, devices)
    return decide_time(setting, FASTER_RANKS, all(shared < alone for _, alone, shared in times),
                       shown_times(times, devices), "" if times else NEEDS_MEMORY)


def faster_devices_claim(setting, measured):
    devices = max((devices for devices, _ in measured.several()
                   if devices in counts_with_cores(setting)), default=0)
    times = times_on(measured, devices)
    return decide(FASTER_DEVICES, all(shared < alone for _, alone, shared in times),
                  shown_times(times, devices), "" if times else NEEDS_CORES, measured.disturbed)


def strong_numbers(point):
    return (f"total batch {point.total} on {point.devices} devices: {point.speedup:.2f}; batch "
            f"{point.weak_batch} on each: {point.weak:.2f}" if point else "")


def strong_ranks_claim(setting, measured):
    point = lab_answers.strong_point(measured)
    return decide_time(setting, STRONG_RANKS, point and point.is_worse,
                       strong_numbers(point), "" if point else NO_PAIR)


def strong_devices_claim(setting, measured):
    """Judges the most devices that have cores."""
    point = lab_answers.strong_point(measured)
    lacks = "" if most_with_cores(setting) > 1 else NEEDS_CORES
    return decide(STRONG_DEVICES, point and point.is_worse, strong_numbers(point),
                  lacks or ("" if point else NO_PAIR), measured.disturbed)


def share_claim(setting, measured):
    shown = lab_tables.cells([measured], several=True)
    most = max((cell.devices for cell in shown), default=0)
    shares = {cell.batch: cell.share for cell in shown if cell.devices == most}
    values = [*shares.values()]
    return decide_time(setting, SHARE,
                       all(later < earlier for earlier, later in zip(values, values[1:])),
                       ", ".join(f"batch {batch}: {share:.0f} %" for batch, share in shares.items()),
                       "" if len(shares) > 1 else NEEDS_BATCHES)


def baselines(setting):
    """Says which one device the speed-ups of each way refer to."""
    threads = counted(device_threads(setting), "compute thread")
    if not setting.has_hosts:
        return (f"Each device of a process, and each rank, has {threads}, also if it is alone. So the "
                "speed-ups of both ways refer to the same one device.")
    of_rank = setting.threads(1)
    of_rank = counted(of_rank, "compute thread") if of_rank else "as many as its host has cores"
    return (f"Each device of a process has {threads}, and each rank has {of_rank}, also if it is "
            "alone. The speed-ups of each way refer to its own row of 1 device.")


def is_q4_real(setting):
    return setting.images(setting.scale["large"]["images"])[1] not in MADE_UP


def notes(setting):
    said = ["A device is a group of compute threads of one process (DataParallel), or a rank. The "
            "lab's two loader processes are two loader threads (--loaders 2). Remedies for large "
            "batches (Q4): gradwire experiment large-batch."]
    most = most_with_cores(setting)
    if most < max(setting.scale["devices"]):
        said.append(f"This machine has cores for {counted(most, 'device')} of a process; on more, devices "
                    "wait for cores, and their speed-up says nothing about separate devices.")
    if not setting.has_hosts:
        said.append("All ranks shared the cores of this machine, so their speed-ups say nothing "
                    "about separate devices.")
    dataset = setting.images()[1]
    if dataset in MADE_UP:
        said.append(made_up_note("all questions but Q4" if is_q4_real(setting) else "all trainings",
                                 "Q4's are Fashion-MNIST's." if is_q4_real(setting) else "",
                                 dataset))
    return said


@report_part
def last_epoch_table(setting, results):
    sizes = setting.scale["large"]
    table = large_batch.last_epoch_table(setting, sizes, results, LARGE)
    return dataclasses.replace(
        table, note=f"{table.note}\n\n{lab_answers.remedies(setting, sizes, results)}")


@report_part
def measured_way(setting, results, way):
    """Returns a list of a Measured."""
    return [Measured(setting, results, way)]


def find(setting, results):
    by_way = {way: one for way in WAYS for one in measured_way(setting, results, way)}
    ways = [*by_way.values()]

    def of_way(way, claim, *arguments):
        return claim(*arguments, by_way[way]) if way in by_way else ()
    return Findings(
        [bytes_claim(results), lab_data.order_claim(results), lab_data.drift_claim(results),
         worse_claim(results, setting.scale["large"]), of_way(DEVICES, longer_claim),
         of_way(DEVICES, faster_devices_claim, setting), of_way(RANKS, faster_ranks_claim, setting),
         of_way(DEVICES, strong_devices_claim, setting), of_way(RANKS, strong_ranks_claim, setting),
         of_way(RANKS, share_claim, setting)],
        [of_way(DEVICES, lab_tables.first_table), lab_tables.speedup_table(ways, baselines(setting)),
         lab_tables.split_table(ways),
         lab_tables.bandwidth_table(ways, setting.request["link_gbit"]),
         last_epoch_table(setting, results), lab_data.order_table(results),
         lab_data.kinds_table(results), lab_data.drift_table(results),
         *(picture(measured) for picture in (lab_tables.speedup_picture, lab_tables.split_picture)
           for measured in ways)], notes(setting))


EXPERIMENT = Experiment(
    "lab", "Computation against communication", SOURCE, SCALES, runs, find, 4,
    statements=STATEMENTS, signs=lab_sweep.signs,
    leaves_open=("model", "dataset", "batch-size", "lr", "momentum", "weight-decay"))
