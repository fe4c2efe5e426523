"""The HPC lab's questions on data: the order of samples (Q5), the bytes that ranks send each other
(Q6), and BatchNorm's statistics if they are not broadcast (Q7)."""
import array
import base64
import math

from cli.experiment.study import Statement, Table, counted, decide, report_part
from cli.experiment.lab_sweep import LOADERS, SIZES
from cli.experiment.work import DDP, LOSSES, Order, Training, samples_of
from cli.runs.tables import Column
from cli.runs.training import steps_per_epoch

EXCHANGE_RANKS = 2
SHOWN_SAMPLES = 8
SWITCHES = ("true", "false")
ORDER = Statement(
    "order", "Without set_epoch two epochs come in one order, with it in two.", "Q5",
    "indices of the samples with which each rank begins two epochs",
    "the epochs are equal without set_epoch and differ with it")
DRIFT = Statement(
    "drift", "Without broadcast the ranks' BatchNorm statistics differ, with it they are equal.",
    "Q7", "hash of each rank's statistics after training",
    "there are as many values as ranks without broadcast, and one with it",
    "a model with BatchNorm (--model)")
NEEDS_BATCHNORM = "needs a model with BatchNorm"


def order_name(set_epoch):
    return f"set-epoch-{set_epoch}"


def buffers_name(broadcast):
    return f"buffers-{broadcast}"


def exchange_run(setting, broadcast):
    """Trains at full scale for an epoch, and tests each rank."""
    scale = setting.scale
    batch, epochs = scale["batch-size"], 1 if "epochs" in scale else 0
    steps = steps_per_epoch(samples_of(setting.images()), EXCHANGE_RANKS, batch)
    iterations = steps if epochs else scale["iterations"]
    return Training(buffers_name(broadcast), f"buffers broadcast: {broadcast}", EXCHANGE_RANKS,
                    batch, iterations, (*DDP, "--broadcast-buffers", broadcast, *LOADERS),
                    epochs=epochs, tests=bool(epochs), model=scale["model"], only=LOSSES)


def runs(setting):
    return [*(Order(order_name(set_epoch), f"order of samples, set_epoch: {set_epoch}",
                    EXCHANGE_RANKS, ("--set-epoch", set_epoch)) for set_epoch in SWITCHES),
            *(exchange_run(setting, broadcast) for broadcast in SWITCHES)]


@report_part
def order_table(results):
    rows = []
    for set_epoch in SWITCHES:
        epochs = results[order_name(set_epoch)].epochs
        for rank in range(EXCHANGE_RANKS):
            first, second = (" ".join(map(str, of_ranks[rank][:SHOWN_SAMPLES]))
                             for of_ranks in epochs)
            rows.append({"set_epoch": set_epoch, "rank": rank, "first": first, "second": second})
    return Table("q5", "Samples with which each rank begins an epoch", "Q5",
                 [Column("set_epoch", "set_epoch"), Column("rank", "rank"),
                  Column("first", "1st epoch"), Column("second", "2nd epoch")], rows,
                 "Without it every epoch has the same batches; only augmentation differs.")


@report_part
def order_claim(results):
    kept, changed = (results[order_name(set_epoch)].epochs for set_epoch in ("false", "true"))
    return decide(ORDER, kept[0] == kept[1] and changed[0] != changed[1],
                  f"the first {len(kept[0][0])} samples of each of {EXCHANGE_RANKS} ranks: "
                  f"{'equal' if kept[0] == kept[1] else 'different'} without, "
                  f"{'equal' if changed[0] == changed[1] else 'different'} with")


def gradients_sent(results):
    return results[buffers_name("false")].sent_per_iteration()


def buffers_sent(results):
    return results[buffers_name("true")].sent_per_iteration() - gradients_sent(results)


@report_part
def kinds_table(results):
    kinds = [("gradients", gradients_sent(results)),
             ("BatchNorm statistics of rank 0", buffers_sent(results)), ("parameters", 0)]
    return Table("q6", f"Bytes of an iteration by kind, {EXCHANGE_RANKS} ranks over the ring",
                 "Q6", [Column("kind", "kind"), Column("bytes", "bytes")],
                 [{"kind": kind, "bytes": size} for kind, size in kinds],
                 "Each rank also sends the coordinator a message an iteration, with its loss and "
                 "times, and four heartbeats a second. Parameters never travel: all ranks begin "
                 "with the same, and apply the same means.")


def floats_of(summary):
    return array.array("f", base64.b64decode(summary["buffers"]))


def distance(summary, to):
    """Returns the distance of two ranks' statistics, relative to the length of the latter's."""
    if summary["buffers_sha256"] == to["buffers_sha256"]:
        return 0.0
    return math.dist(floats_of(summary), floats_of(to)) / math.hypot(*floats_of(to))


@report_part
def drift_table(results):
    rows = []
    for broadcast in SWITCHES:
        summaries = [rank.summary for rank in results[buffers_name(broadcast)].ranks]
        for number, summary in enumerate(summaries):
            test = summary.get("test")
            rows.append({"broadcast": broadcast, "rank": number,
                         "statistics": summary["buffers_sha256"][:12],
                         "distance": distance(summary, summaries[0]),
                         "accuracy": 100 * test["accuracy"] if test else None})
    return Table("q7", "BatchNorm statistics by rank, with and without broadcast", "Q7",
                 [Column("broadcast", "broadcast"), Column("rank", "rank"),
                  Column("statistics", "hash of the statistics"),
                  Column("distance", "distance from rank 0's", 4),
                  Column("accuracy", "test accuracy (%)", 2)], rows,
                 "Distance: of all running means and variances, relative to the length of rank "
                 "0's. Accuracies are tested only at full scale.")


@report_part
def drift_claim(results):
    kept, drifted = ([rank.summary["buffers_sha256"]
                      for rank in results[buffers_name(broadcast)].ranks] for broadcast in SWITCHES)
    return decide(DRIFT, len(set(kept)) == 1 and len(set(drifted)) == EXCHANGE_RANKS,
                  f"{counted(len(set(kept)), 'value')} with, {len(set(drifted))} without, of "
                  f"{EXCHANGE_RANKS} ranks",
                  "" if results[SIZES].buffers else NEEDS_BATCHNORM)
