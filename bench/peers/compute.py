"""The threads and the BLAS library with which PyTorch computes."""
import ctypes
import pathlib
import sys

import torch


def use_threads(count):
    """Sets the number of threads, also of an OpenBLAS, which has a number of its own."""
    blas = ctypes.CDLL("libblas.so.3")
    if hasattr(blas, "openblas_set_num_threads"):
        blas.openblas_set_num_threads(count)
    torch.set_num_threads(count)


def check_blas(path):
    """Ends the process unless it has loaded the BLAS library at `path`, with links resolved."""
    if not any(line.split()[-1] == path for line in pathlib.Path("/proc/self/maps").open()):
        sys.exit(f"PyTorch of {torch.__file__} does not compute on {path}, as gradwire-worker "
                 "does; use Debian's python3-torch with the same libblas.so.3")
