"""The images of gradwire-worker, in PyTorch, without augmentation."""
import gzip
import pathlib

import numpy
import torch

RECORD = 1 + 3 * 32 * 32  # bytes of a CIFAR-10 image with its label
SYNTHETIC_SAMPLES = 50000
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"  # Debian's
BORDER = 2  # of pixels around 28 x 28
# By data set and channel.
MEAN = {"cifar10": (125.3 / 255, 123.0 / 255, 113.9 / 255), "fashion-mnist": (0.2860,) * 3}
STD = {"cifar10": (63.0 / 255, 62.1 / 255, 66.7 / 255), "fashion-mnist": (0.3530,) * 3}


def idx_file(folder, name, header):
    """Returns the values after the header of a file of MNIST's kind."""
    plain = pathlib.Path(folder, name)
    data = plain.read_bytes() if plain.exists() else gzip.open(f"{plain}.gz").read()
    return numpy.frombuffer(data, numpy.uint8, offset=header)


def cifar10(a, train):
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    records = numpy.concatenate([numpy.fromfile(pathlib.Path(a.data_dir, name), numpy.uint8)
                                 for name in names]).reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def fashion_mnist(a, train):
    """Returns framed images, with the one channel repeated three times."""
    folder, part = a.data_dir or FASHION_MNIST, "train" if train else "t10k"
    pixels = idx_file(folder, f"{part}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    frame = ((0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER))
    return numpy.pad(pixels, frame).repeat(3, axis=1), idx_file(folder, f"{part}-labels-idx1-ubyte",
                                                                8)


def synthetic(_a, train):
    random = numpy.random.RandomState(0 if train else 1)
    records = random.randint(0, 256, SYNTHETIC_SAMPLES * RECORD).astype(numpy.uint8)
    records = records.reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0] % 10


DATASETS = {"cifar10": cifar10, "fashion-mnist": fashion_mnist, "synthetic": synthetic}


class Images:
    """Images as bytes, and their labels."""

    def __init__(self, a, train=True):
        kind = a.dataset if a.dataset in MEAN else "cifar10"
        self._mean, self._std = (numpy.array(of[kind], numpy.float32).reshape(1, 3, 1, 1)
                                 for of in (MEAN, STD))
        self._pixels, labels = DATASETS[a.dataset](a, train)
        self._labels = labels.astype(numpy.int64)

    def __len__(self):
        return len(self._labels)

    def batch(self, indices):
        pixels = (self._pixels[indices].astype(numpy.float32) / 255 - self._mean) / self._std
        return torch.from_numpy(pixels), torch.from_numpy(self._labels[indices])
