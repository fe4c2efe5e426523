"""The networks, sizes and trainings that the parts of experiment `ddp-paper` share."""
import dataclasses

from cli.experiment.work import COSTS, TIMES, Training

USUAL_MB = 25
WHOLE_MB = 1024  # above every model
# A choice: the ring, as in NCCL, is measured first, and the others are compared with it.
RING = "ring"
GLOO = "gloo"
PAPERS = (RING, GLOO)  # of the paper's figures
NO_NETWORK = "too little memory for all ranks of a network"
NEEDS = "a host for each rank (--hosts auto, --hosts podman or --hostfile)"
COPIES = 8  # of the parameters that a rank holds at most: gradients, terms, means, momentum, …


def overlapped(backend, bucket_mb):
    """Returns the options of a worker whose exchange overlaps with backward alone."""
    return "--sync", "ddp", "--backend", backend, "--bucket-cap-mb", bucket_mb, "--barrier"


def after_backward(backend):
    return "--sync", "all-reduce", "--backend", backend, "--bucket-cap-mb", USUAL_MB


@dataclasses.dataclass(frozen=True)
class Network:
    """A network whose buckets are measured, with a batch that fits."""
    key: str
    title: str
    model: str
    images: tuple
    batch: int  # of each rank
    wide_buckets: tuple  # sizes in MB at all widths but the first


TOKENS = ("--dataset", "synthetic-tokens")
FULL_BUCKETS = (0, 5, 10, 25, 50, WHOLE_MB)
SMALL_IMAGES = ("--dataset", "synthetic", "--image-size", "32")
# widths         numbers of ranks of Figs. 7 and 8; without hosts only the first
# hosts          that are made for them
# buckets        sizes in MB at the first width
# compared       sizes whose parameters are compared
# all_backends   whether back ends that the paper does not have are timed in Figs. 7 and 8, too
# sleeps         forward and backward of the runs in which one rank comes `late` by some seconds
SCALES = {
    "quick": {"about": "4 and 8 ranks and 4 iterations; ResNet-50 of 32 × 32 images, a small BERT, "
                       "and VGG-11. The paper has 16 and 32 GPUs. Only --scale full has 16 ranks, "
                       "buckets of 10 and 50 MB, all sizes on 2W ranks, BERT base, and "
                       "back ends besides ring and gloo in Figs. 7 and 8.",
              "ranks": 4, "batch": 8, "iterations": 4, "widths": (4, 8), "hosts": 8,
              "buckets": (0, 5, 25, WHOLE_MB), "compared": (0, 25), "all_backends": False,
              "networks": (Network("resnet50", "ResNet-50", "resnet50", SMALL_IMAGES, 2,
                                   (0, 25, WHOLE_MB)),
                           Network("bert", "BERT (small)", "bert_small", TOKENS, 2, (25,))),
              "passes": (1, 4), "scaling": (1, 2, 4), "strong": 128, "weak": 32,
              "groups": (1, 3), "sleeps": (0.1, 0.2), "late": 0.3},
    "full": {"about": "4, 8 and 16 ranks and 40 iterations; ResNet-50 of 224 × 224 images, BERT "
                      "base, and VGG-11. The paper has 16 and 32 GPUs.",
             "ranks": 4, "batch": 64, "iterations": 40, "widths": (4, 8, 16), "hosts": 16,
             "buckets": FULL_BUCKETS, "compared": FULL_BUCKETS, "all_backends": True,
             "networks": (Network("resnet50", "ResNet-50", "resnet50", ("--dataset", "synthetic"),
                                  16, FULL_BUCKETS),
                          Network("bert", "BERT (base)", "bert_base", TOKENS, 4, FULL_BUCKETS)),
             "passes": (1, 2, 4, 8), "scaling": (1, 2, 4), "strong": 256, "weak": 64,
             "groups": (1, 3, 5), "sleeps": (0.1, 0.2), "late": 0.3},
    "tiny": {"about": "For tests.", "hidden": True,
             "ranks": 2, "batch": 2, "iterations": 3, "widths": (2, 4), "hosts": 4,
             "buckets": (0, 25, WHOLE_MB), "compared": (0, 25), "all_backends": False,
             "networks": (Network("resnet50", "ResNet-50", "resnet50", SMALL_IMAGES, 2,
                                  (0, 25, WHOLE_MB)),
                          Network("bert", "BERT (tiny)", "bert_tiny", TOKENS, 1, (25,))),
             "passes": (1, 2), "scaling": (1, 2), "strong": 4, "weak": 2,
             "groups": (1, 3), "sleeps": (0.01, 0.02), "late": 0.3}}


def backends(setting):
    """Returns those that load all workers alike, as the paper's process groups do."""
    return sorted(setting.backends("loads_workers_alike"), key=lambda name: name != RING)


def exact_backends(setting):
    """Returns those that add in the order of the fold, however the bytes are cut."""
    return [name for name in backends(setting) if name in setting.backends("exact")]


def widths(setting):
    """Returns the numbers of ranks of Figs. 7 and 8: W, 2W, …, as far as there are hosts."""
    wanted, hosts = setting.scale["widths"], setting.request["workers"]
    if not setting.has_hosts:
        return wanted[:1]
    possible = tuple(ranks for ranks in wanted if ranks <= hosts)
    half = hosts // 2  # of an odd number, one host is left out
    return possible if len(possible) > 1 else (half, 2 * half)


def widths_of(setting, network):
    """Returns those at which the network fits in memory."""
    copies = COPIES * COSTS[network.model].bytes
    apart = setting.hosts_are_elsewhere
    return tuple(ranks for ranks in widths(setting)
                 if copies * (1 if apart else ranks) < setting.memory)


def training(scale, name, title, options, **more):
    return Training(name, title, **{"ranks": scale["ranks"], "batch_size": scale["batch"],
                                    "iterations": scale["iterations"], "options": options,
                                    "recovers": False, **more})


def of_network(scale, network, name, title, options, **more):
    return training(scale, name, f"{network.title}, {title}", options, model=network.model,
                    images=network.images, batch_size=network.batch, **more)


def usual_name(ranks, batch):
    return f"vgg11-{ranks}-ranks-batch-{batch}"


def usual(scale, ranks, batch):
    """Returns the run of VGG-11 with a ring and overlap; of one rank: without an exchange."""
    options = overlapped(RING, USUAL_MB) if ranks > 1 else ("--sync", "none")
    return training(scale, usual_name(ranks, batch), f"VGG-11, {ranks} × {batch}", options,
                    ranks=ranks, batch_size=batch, only=TIMES)


def listed(values, unit="s", digits=4):
    """Returns "a 1.0000 s, b 2.0000 s" of a dict; None is "?"."""
    return ", ".join(f"{name} {'?' if value is None else format(value, f'.{digits}f')} {unit}"
                     for name, value in values.items())
