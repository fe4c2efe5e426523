"""The statements of the DDP paper and its lecture on buckets, and their verdicts."""
from cli.experiment.ddp_buckets import bucket_name, compared, names_name, size_title, sweeps
from cli.experiment.ddp_setups import (GLOO, NEEDS, NO_NETWORK, PAPERS, RING, USUAL_MB, WHOLE_MB,
                                       exact_backends, listed, widths)
from cli.experiment.noise import EQUAL, condition_of
from cli.experiment.study import Statement, counted, decide, decide_time, report_part

BOTH = "for ResNet-50 and BERT, over ring and gloo"
# Statements of the figure of W ranks (the paper's 16 GPUs), and of that of 2W beside it (32).
OF_W = "Fig. 7"
OF_MODELS = f"{OF_W}, BERT beside ResNet-50"
OF_BACKENDS = f"{OF_W}, NCCL beside Gloo"
OF_2W = "Fig. 8 beside Fig. 7"
OF_WIDE = "Fig. 8"
# Bounds of "about": a choice.
ABOUT = 1.1  # of the best time
AS_LONG = 1.25
NO_WIDTH = "needs twice the ranks, with a host and memory for each"

ORDER = Statement(
    "order", "Parameters go to buckets in the reverse order of layers.", "section 3.2.3",
    "names of the tensors in each bucket, as gradwire plan prints them",
    "bucket after bucket, they are the model's parameters in reverse, and none is missing")
SAME_BITS = Statement(
    "bucket-bits", "The size of buckets changes no bit of the parameters.",
    "section 3.2, bucketing keeps the result", "SHA-256 of the parameters after training",
    "each model has one hash over all sizes, all ranks and all exact back ends")
SMALL = Statement(
    "small-tensors", "Many small tensors take longer than few large ones.",
    "section 2.3, Fig. 2, and the lecture's fixed cost of each message",
    "median time of an iteration with a bucket for each parameter, and with 25 MB",
    f"25 MB take less time, by more than the noise, {BOTH}", NEEDS)
WHOLE = Statement(
    "one-bucket", "One bucket for the whole model waits for all gradients and cannot overlap.",
    "section 3.2.2, why not one big bucket",
    "exposed communication with a bucket above the model, and with 25 MB",
    f"the big bucket exposes more, {BOTH}", NEEDS)
MIDDLE = Statement(
    "middle", "The best size is neither a bucket for each parameter nor one for all.", OF_W,
    "median time of an iteration by size",
    f"the best size lies between the two, by more than the noise, {BOTH}", NEEDS)
USUAL = Statement(
    "usual-size", "About 25 MB is a good middle.", "section 6, and the lecture",
    "median time of an iteration with 25 MB, over the best of all sizes",
    f"it is at most {ABOUT:g}, {BOTH}", NEEDS)
BERT_LONGER = Statement(
    "bert-longer", "BERT takes longer than ResNet-50.", OF_MODELS,
    "median time of an iteration with 25 MB", "BERT's is longer, over ring and gloo", NEEDS)
BERT_LARGER = Statement(
    "bert-larger", "Larger buckets suit BERT.", OF_MODELS, "size with the least median time",
    "BERT's is larger than ResNet-50's, over ring and gloo", NEEDS)
BY_BACKEND = Statement(
    "size-by-backend", "The best size depends on the back end.", OF_BACKENDS,
    "size with the least median time, over ring and gloo",
    "it differs for ResNet-50 or for BERT", NEEDS)
QUICKER = Statement(
    "quicker", "NCCL, for which the ring stands here, is quicker than Gloo.", OF_BACKENDS,
    "median time of an iteration with 25 MB",
    "the ring's is shorter, for ResNet-50 and BERT", NEEDS)
STEADIER = Statement(
    "steadier", "NCCL, for which the ring stands here, varies less than Gloo.", OF_BACKENDS,
    "10th to 90th percentile over the median, mean of all sizes",
    "the ring's is smaller, for ResNet-50 and BERT", NEEDS)
TWICE = Statement(
    "twice-the-ranks", "2W ranks take about as long as W.", OF_2W,
    "median time of an iteration with 25 MB, of 2W over W ranks",
    f"it is at most {AS_LONG:g}, {BOTH}", f"{NEEDS}, for 2W ranks")
WIDE_MIDDLE = Statement(
    "middle-of-2w", "On 2W ranks, too, the best size is neither a bucket for each parameter nor one for "
    "all.", OF_WIDE, MIDDLE.quantity,
    "the best size lies between the two, by more than the noise, for ResNet-50 and, at --scale full, "
    "BERT, over ring and gloo", f"{NEEDS}, for 2W ranks")
STATEMENTS = (ORDER, SAME_BITS, SMALL, WHOLE, MIDDLE, USUAL, BERT_LONGER, BERT_LARGER, BY_BACKEND,
              QUICKER, STEADIER, TWICE, WIDE_MIDDLE)
ENDS = {0, WHOLE_MB}


@report_part
def order_claim(setting, results):
    of_networks = {network.title: results[names_name(network)]
                   for network in setting.scale["networks"]}
    wrong = [title for title, result in of_networks.items()
             if result.averaged_tensors() != result.parameters[::-1]]
    counts = ", ".join(f"{title} {len(result.parameters)} tensors in "
                       f"{counted(sum(bucket['averaged'] for bucket in result.buckets), 'bucket')}"
                       for title, result in of_networks.items())
    return decide(ORDER, not wrong, f"wrong: {', '.join(wrong)}" if wrong else counts)


@report_part
def bits_claim(setting, results):
    hashes = {}
    for network, *run in compared(setting):
        hashes.setdefault(network.title, set()).update(results[bucket_name(network, *run)].hashes())
    complete = len(hashes) == len(setting.scale["networks"])
    return decide(SAME_BITS, all(len(of_network) == 1 for of_network in hashes.values()),
                  ", ".join(f"{title} {counted(len(of_network), 'hash', 'hashes')}"
                            for title, of_network in hashes.items()) +
                  f" over {' and '.join(exact_backends(setting))}",
                  "" if complete else NO_NETWORK)


class Judge:
    """Decides statements on time from the sweeps of the paper's back ends. A group of sweeps is
    judged together; None is in place of one that does not fit here."""

    def __init__(self, setting):
        self._setting, self._widths = setting, widths(setting)
        self._networks = setting.scale["networks"]
        self._keys = [network.key for network in self._networks]
        self._sweeps = {(sweep.network.key, sweep.backend, sweep.ranks): sweep
                        for sweep in sweeps(setting)}

    def _group(self, keys, backends, ranks):
        return tuple(self._sweeps.get((key, backend, of_ranks)) for key in keys
                     for backend in backends for of_ranks in ranks)

    def singles(self):
        return [self._group([key], [backend], self._widths[:1]) for key in self._keys
                for backend in PAPERS]

    def wide_singles(self):
        """Returns those of 2W ranks, of the networks with all sizes there."""
        ranks = (self._widths + (None,))[1:2]
        return [self._group([network.key], [backend], ranks) for network in self._networks
                if {*network.wide_buckets} >= ENDS for backend in PAPERS]

    def networks(self):
        """Returns a pair for each back end: the first network and the last."""
        return [self._group([self._keys[0], self._keys[-1]], [backend], self._widths[:1])
                for backend in PAPERS]

    def backends(self):
        """Returns a pair for each network: ring and gloo."""
        return [self._group([key], [RING, GLOO], self._widths[:1]) for key in self._keys]

    def doubled(self):
        """Returns a pair for each network and back end: W ranks and 2W."""
        ranks = (self._widths + (None,))[:2]
        return [self._group([key], [backend], ranks) for key in self._keys for backend in PAPERS]

    @report_part
    def decide(self, statement, groups, value, holds, text, lacks, of_all=all, ratio=False,
               condition_of=lambda values: ""):
        """Decides whether `holds` of value(sweep) of each group, all of them or any. `lacks`: the
        reason if a sweep is missing; `ratio`: of a pair's values, the second over the first, stands
        after them. condition_of(values): of the verdict, if each group is one sweep."""
        complete = [group for group in groups if None not in group]
        texts = ratio_text if ratio else each_text
        values = [[value(sweep) for sweep in group] for group in complete]
        return decide_time(
            self._setting, statement, of_all([holds(*of_group) for of_group in values]),
            "; ".join(texts(*of_group, text) for of_group in zip(complete, values)),
            "" if complete == groups else lacks,
            condition=condition_of([value for of_group in values for value in of_group]))


def each_text(group, values, text):
    return "; ".join(f"{sweep.network.title}, {sweep.backend}, {sweep.ranks} ranks: {text(value)}"
                     for sweep, value in zip(group, values))


def ratio_text(pair, values, text):
    (first, second), (before, after) = pair, values
    return (f"{first.network.title}, {first.backend}, {second.ranks} over {first.ranks} ranks: "
            f"{text(after)} over {text(before)} is {after / before:.2f}")


def seconds(value):
    return f"{value:.4f} s"


def titled(values):
    return listed({size_title(size): value for size, value in values.items()})


class Best:
    """The best size of a sweep, and those that are equal to it within the noise."""

    def __init__(self, sweep, results):
        self.best, *self.others = sweep.level(results)
        ends = [size in ENDS for size in (self.best, *self.others)]
        self.is_less = not any(ends)  # in the middle
        self.is_equal = any(ends) and not all(ends)

    @property
    def text(self):
        others = " and ".join(map(size_title, self.others))
        return size_title(self.best) + (f" ({EQUAL} to {others})" if others else "")


def small_text(found):
    return titled({0: found.before, USUAL_MB: found.after}) + found.text


def two_of(values, *sizes):
    return {size: values[size] for size in sizes}


def time_claims(setting, results):
    judge = Judge(setting)

    def median(sweep):
        return sweep.medians(results)[USUAL_MB]

    def medians(sweep):
        return sweep.medians(results)

    def best(sweep):
        return sweep.best(results)

    def middle(statement, groups, lacks):
        return judge.decide(statement, groups, lambda sweep: Best(sweep, results),
                            lambda found: found.is_less, lambda found: found.text, lacks,
                            condition_of=condition_of)
    return [
        judge.decide(SMALL, judge.singles(),
                     lambda sweep: sweep.compared(results, 0, USUAL_MB),
                     lambda found: found.is_less, small_text, NO_NETWORK,
                     condition_of=condition_of),
        judge.decide(WHOLE, judge.singles(),
                     lambda sweep: two_of(sweep.exposed(results), USUAL_MB, WHOLE_MB),
                     lambda exposed: exposed[USUAL_MB] < exposed[WHOLE_MB], titled, NO_NETWORK),
        middle(MIDDLE, judge.singles(), NO_NETWORK),
        judge.decide(USUAL, judge.singles(), lambda sweep: median(sweep) / min(
            medians(sweep).values()), lambda ratio: ratio <= ABOUT, "{:.2f}".format, NO_NETWORK),
        judge.decide(BERT_LONGER, judge.networks(), median,
                     lambda resnet, bert: resnet < bert, seconds, NO_NETWORK),
        judge.decide(BERT_LARGER, judge.networks(), best,
                     lambda resnet, bert: resnet < bert, size_title, NO_NETWORK),
        judge.decide(BY_BACKEND, judge.backends(), best, lambda ring, gloo: ring != gloo,
                     size_title, NO_NETWORK, any),
        judge.decide(QUICKER, judge.backends(), median, lambda ring, gloo: ring < gloo, seconds,
                     NO_NETWORK),
        judge.decide(STEADIER, judge.backends(), lambda sweep: sweep.spread(results),
                     lambda ring, gloo: ring < gloo, "{:.3f}".format, NO_NETWORK),
        judge.decide(TWICE, judge.doubled(), median,
                     lambda once, twice: twice <= AS_LONG * once, seconds, NO_WIDTH, ratio=True),
        middle(WIDE_MIDDLE, judge.wide_singles(), NO_WIDTH)]


def claims(setting, results):
    return [order_claim(setting, results), bits_claim(setting, results),
            *time_claims(setting, results)]
