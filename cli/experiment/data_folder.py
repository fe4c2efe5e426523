"""Whether the folder of --data-dir holds the data set that an experiment reads from it."""
import dataclasses
import os

from cli.runs.failure import EXIT_USAGE, Failure


@dataclasses.dataclass(frozen=True)
class Published:
    """A data set as it is published."""
    title: str
    file: str  # one that its folder has, perhaps with .gz behind it
    fetch: str  # the script that gets it


PUBLISHED = {"cifar10": Published("CIFAR-10", "data_batch_1.bin", "deploy/fetch-cifar10"),
             "cifar100": Published("CIFAR-100", "train.bin", "deploy/fetch-cifar100"),
             "mnist": Published("MNIST", "train-images-idx3-ubyte", "deploy/fetch-mnist")}
OTHERWISE = {"fashion-mnist": "Debian's Fashion-MNIST", "synthetic": "made-up images"}


def file_in(folder, published):
    """The name of its file in the folder; "" if it has none."""
    for name in (published.file, f"{published.file}.gz"):
        if os.path.exists(os.path.join(folder, name)):
            return name
    return ""


def what_is_in(folder):
    """A sentence's end: "which looks like CIFAR-10 (data_batch_1.bin)"."""
    if not os.path.isdir(folder):
        return "which is no folder"
    for published in PUBLISHED.values():
        if name := file_in(folder, published):
            return f"which looks like {published.title} ({name})"
    return "which holds none of its files"


def dataset_of(options):
    """The data set that a worker's options name."""
    return options[options.index("--dataset") + 1]


def check_data_folder(folder, options, without):
    """Failure if the folder of --data-dir does not hold what `options`, a worker's, take from it.
    `without`: the same options if --data-dir is left away; None if their run is left out then."""
    wanted = PUBLISHED[dataset_of(options)]
    if file_in(folder, wanted):
        return
    use = f"use {OTHERWISE[dataset_of(without)]}" if without else "do without the runs that need it"
    raise Failure(f"--data-dir: got '{folder}', {what_is_in(folder)}, expected {wanted.title} "
                  f"({wanted.file}); fetch it with {wanted.fetch} DIR, or leave --data-dir away to "
                  f"{use}", EXIT_USAGE)
