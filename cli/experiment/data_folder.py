"""Checks that the folder of --data-dir holds the data set that an experiment reads from it."""
import dataclasses
import os

from cli.runs.failure import EXIT_USAGE, Failure


@dataclasses.dataclass(frozen=True)
class Published:
    """A data set in its published form."""
    title: str
    file: str  # a file of its folder, which may end in .gz
    fetch: str  # the script that downloads it


PUBLISHED = {"cifar10": Published("CIFAR-10", "data_batch_1.bin", "deploy/fetch-cifar10"),
             "cifar100": Published("CIFAR-100", "train.bin", "deploy/fetch-cifar100"),
             "mnist": Published("MNIST", "train-images-idx3-ubyte", "deploy/fetch-mnist")}
OTHERWISE = {"fashion-mnist": "Debian's Fashion-MNIST", "synthetic": "made-up images"}


def file_in(folder, published):
    """Returns the name of its file in the folder; "" if there is none."""
    return next((name for name in (published.file, f"{published.file}.gz")
                 if os.path.exists(os.path.join(folder, name))), "")


def what_is_in(folder):
    """Describes a folder: "which looks like CIFAR-10 (data_batch_1.bin)"."""
    if not os.path.isdir(folder):
        return "which is no folder"
    for published in PUBLISHED.values():
        if name := file_in(folder, published):
            return f"which looks like {published.title} ({name})"
    return "which holds none of its files"


def dataset_of(options):
    """Returns the data set that a worker's options name."""
    return options[options.index("--dataset") + 1]


def has_form(options):
    """Whether the data set of a worker's options has a published form."""
    return dataset_of(options) in PUBLISHED


def way_out(without):
    """Returns what else to do; "" if the run reads the same data set `without` --data-dir."""
    if not without:
        return ", or omit --data-dir to do without the runs that need it"
    if has_form(without):
        return ""
    return f", or omit --data-dir to use {OTHERWISE[dataset_of(without)]}"


def check_data_folder(folder, options, without):
    """Failure if the folder of --data-dir lacks the data set of `options`, a worker's, as it is
    published; gradwire-layout checks other ones. `without`: the options of the same run without
    --data-dir; None if there is no such run."""
    if not has_form(options):
        return
    wanted = PUBLISHED[dataset_of(options)]
    if file_in(folder, wanted):
        return
    raise Failure(f"--data-dir: got '{folder}', {what_is_in(folder)}, expected {wanted.title} "
                  f"({wanted.file}); fetch it with {wanted.fetch} DIR{way_out(without)}",
                  EXIT_USAGE)
