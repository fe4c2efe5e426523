"""The HPC lab's answers that are sentences, with the numbers of the run."""
from cli.experiment import large_batch
from cli.experiment.lab_sweep import phases_of, ring_bytes
from cli.experiment.study import counted
from cli.experiment.work import COSTS

COMPUTING = ("forward", "backward")


def end_of_sweep(measured):
    if not measured.batches:
        return "No batch fitted into memory."
    largest = measured.batches[-1]
    beyond = [batch for batch in measured.scale["batches"] if batch > largest]
    if not beyond:
        return f"Memory would have allowed more than {largest}."
    need = beyond[0] * COSTS[measured.scale["model"]].memory_per_sample / 1e9
    return (f"Memory ends the sweep at {largest}: a batch of {beyond[0]} needs about {need:.0f} GB "
            "on each device.")


class BatchCost:
    """The seconds of an epoch on one device, with a batch of one size."""

    def __init__(self, measured, batch):
        self.batch, self.steps = batch, measured.steps(1, batch)
        self.epoch = measured.computation[batch]
        self.computing = self.steps * phases_of(measured.results[1, batch], *COMPUTING)
        self.once = self.epoch - self.computing  # done once in each iteration
        self.ms_per_sample = 1000 * self.computing / measured.sizes.samples


def epochs_by_batch(measured):
    return ", ".join(f"{seconds:.1f} s with {batch}"
                     for batch, seconds in measured.computation.items())


def longer_or_shorter(measured):
    """Answers Q1, as the claim on it is judged."""
    if len(measured.batches) < 2:
        return "Q1 needs two batches to compare; memory did not allow them."
    if measured.disturbed:
        return (f"Q1 is not measurable here: {measured.disturbed}. An epoch took "
                f"{epochs_by_batch(measured)}.")
    if not (measured.is_shorter_with_batch() or measured.is_longer_with_batch()):
        best = min(measured.computation, key=measured.computation.get)
        return (f"An epoch is neither shorter nor longer with each larger batch: it takes "
                f"{epochs_by_batch(measured)}. A batch of {best} takes the least time.")
    return because_of_batch(*(BatchCost(measured, measured.batches[place]) for place in (0, -1)))


def because_of_batch(small, large):
    """Says why the times of the smallest and the largest batch differ."""
    sign = 1 if large.epoch <= small.epoch else -1
    saved = {"the work that is done once in each iteration": sign * (small.once - large.once),
             "the forward and backward passes": sign * (small.computing - large.computing)}
    return (f"When the batch is larger, an epoch is {'shorter' if sign > 0 else 'longer'}: "
            f"{large.epoch:.1f} s with a batch of {large.batch}, {small.epoch:.1f} s with "
            f"{small.batch}, because of {max(saved, key=saved.get)}. An epoch has {large.steps:,} "
            f"iterations instead of {small.steps:,}. The work that is done once in each of them, "
            f"mainly the update of the parameters, takes {large.once:.1f} s of the epoch instead of "
            f"{small.once:.1f} s. The forward and backward passes take {large.computing:.1f} s "
            f"instead of {small.computing:.1f} s, or {large.ms_per_sample:.2f} ms per sample "
            f"instead of {small.ms_per_sample:.2f} ms.")


def kind_of_scaling(ways):
    """Answers Q2. `ways`: a Measured for each."""
    return ("This is weak scaling: each device keeps its batch, so the work of an iteration grows "
            "with the devices. " + " ".join(other_scaling(measured) for measured in ways))


class StrongPoint:
    """Strong scaling from one device to most, beside weak scaling from the same batch."""

    def __init__(self, measured, devices, batch):
        self.devices, self.batch, self.total = devices, batch, devices * batch
        self.alone = measured.seconds[1, self.total]
        self.shared = measured.seconds[devices, batch]
        self.speedup = self.alone / self.shared
        self.weak_batch = self.total if (devices, self.total) in measured.seconds else batch
        self.weak = measured.speedup(devices, self.weak_batch)
        self.steps = measured.steps(devices, batch)
        self.weak_steps = measured.steps(devices, self.weak_batch)

    @property
    def is_worse(self):
        return self.speedup < self.weak

    def because(self):
        """Returns why strong scaling is worse or better than weak scaling."""
        if self.weak_batch == self.batch:  # both share the epoch on several devices
            return (f"one device alone takes {'less' if self.is_worse else 'more'} time for an epoch "
                    f"with a batch of {self.total} than with {self.batch}")
        exchanges = f"{self.steps:,} exchanges instead of {self.weak_steps:,}"
        if self.is_worse:
            return (f"an epoch on {self.devices} devices then has {exchanges}, with less computation "
                    "between them")
        return ("the smaller batch of each device saves more time of computation than an epoch of "
                f"{exchanges} costs")


def strong_point(measured):
    """Returns the point of the most devices whose times can be judged, and of their largest batch;
    None without one."""
    found = [pair for pair in measured.strong_pairs() if pair[0] in measured.judged_counts]
    return StrongPoint(measured, *max(found)) if found else None


def other_scaling(measured):
    """Compares the other kind of scaling, as the claim on it is judged."""
    point, title = strong_point(measured), measured.way.title
    if not point:
        return (f"{title}: a point of strong scaling needs two runs with the same total batch, on "
                "devices with cores of their own, and there are none.")
    said = (f"whether strong scaling would be worse is not measurable here: {measured.unjudged}."
            if measured.unjudged else
            f"strong scaling would be {'worse' if point.is_worse else 'better'}, because "
            f"{point.because()}.")
    return (f"{title}: {said} Table 1 has a data point for it: a total batch of "
            f"{point.total} took {point.alone:.2f} s on 1 device and {point.shared:.2f} s on "
            f"{point.devices} of {point.batch} each, a speed-up of {point.speedup:.2f}; weak scaling "
            f"to {point.devices} devices of {point.weak_batch} has {point.weak:.2f}.")


def way_of_measuring():
    """Answers Q3.1."""
    return ("Q3.1: The computation is Q1's epoch on one device, divided by the number of devices. "
            "Communication is the rest of the epoch in Table 1. It also contains the loading of "
            "batches and, on one machine, the wait for its cores. The last column is measured "
            "directly: the time in which a transfer was under way, also beside computation, or "
            "waited for a rank whose gradients were not computed yet.")


def formulas(measured, link_gbit):
    """Answers Q3.2. `link_gbit`: None if unknown."""
    return ("Q3.2: In a ring, each of N devices sends 2(N−1) pieces of S/N bytes, so an all-reduce "
            "of S bytes takes T = 2(N−1)/N · S / bandwidth. The bandwidth in use is 2(N−1)/N · S / T."
            f"{utilization(measured, link_gbit) if measured.several() else ''}")


def utilization(measured, link_gbit):
    """Applies the formulas to the most devices."""
    devices, batch = max(measured.several())
    size, seconds = measured.sizes.gradient, measured.exchange_seconds(devices, batch)
    sent = ring_bytes(devices, size)
    used = sent / 1e9 / seconds
    text = (" T is the median time of an all-reduce alone, with no computation beside it; the time in "
            "which an iteration's transfers are under way also contains the wait for the slowest rank's "
            f"computation. {measured.way.title}, with N = {devices}, S = {size:,} bytes and "
            f"T = {seconds:.4f} s: {round(sent):,} bytes / {seconds:.4f} s = {used:.3f} GB/s.")
    if not link_gbit:
        return text
    link = link_gbit / 8
    return (f"{text} Links of {link_gbit:g} Gbit/s have {link:g} GB/s, so T is at least "
            f"{sent / 1e9 / link:.3f} s, and the utilization is {100 * used / link:.0f} %.")


def between_devices():
    """Says why DataParallel's bytes are not those of the formula."""
    return ("DataParallel has no ring: its devices share one memory, so the other devices' gradients "
            "are added to the first one's, N−1 times S in all, and nothing is sent back. Its bytes "
            "per second are those of the formula over T, here the copies of the iteration that has the "
            "shortest ones.")


def remedies(setting, sizes, results):
    """Answers Q4.2."""
    small, plain = large_batch.SMALL, large_batch.PLAIN
    steps = {way: large_batch.steps_per_epoch(setting, sizes, way) for way in (small, plain)}
    loss = {way: large_batch.losses_by_epoch(results, way)[-1] for way in (small, plain)}
    scaled, warmed = large_batch.SCALED, large_batch.WARMED
    factor = large_batch.total_batch(setting, sizes, plain) / sizes["base"]
    end, rise = large_batch.lr_of(setting, sizes, scaled), sizes["warmup"] * steps[plain]
    return (f"Q4.2: The large batch makes {steps[plain]:,} updates an epoch instead of "
            f"{steps[small]:,}, and ended with a loss of {loss[plain]:.4f} instead of "
            f"{loss[small]:.4f}. Two remedies of Goyal et al., 2017: (1) {scaled.title}: the total "
            f"batch is {factor:g} times as large, so lr is {end:g} instead of {sizes['lr']:g}. "
            f"(2) {warmed.title}: lr rises from {sizes['lr']:g} to {end:g} over the first "
            f"{counted(sizes['warmup'], 'epoch')}, here {rise:,} iterations, by {(end - sizes['lr']) / rise:.4g} "
            "in each. gradwire experiment large-batch trains with both.")
