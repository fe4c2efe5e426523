"""Ranks that OpenMPI's mpirun starts on this machine, because their back end needs it."""
import os
import pathlib
import shutil

# Runs a command with its stdout in a file: mpirun mixes the output of its ranks.
INTO_FILE = 'file=$1; shift; exec "$@" >"$file"'


def why_not(request):
    """Returns why mpirun cannot start ranks for the request; "" if it can. `request` has the
    programs, hosts and hostfile of cli/bench/bench_request.h."""
    if request.get("hosts") or request["hostfile"]:
        return ("it runs on this machine alone; on several hosts, start the workers with mpirun "
                "(docs/deploy/mpi.md)")
    if not pathlib.Path(request["programs"]["mpi"]).exists():
        return (f"no {request['programs']['mpi']}; install libopenmpi-dev "
                "(deploy/install-packages mpi) and build with -DGRADWIRE_BUILD_MPI=ON")
    if not shutil.which("mpirun"):
        return "no mpirun: apt-get install openmpi-bin"
    return ""


def needs_mpirun(request, argv):
    """Whether the last --backend in a rank's arguments needs mpirun."""
    named = [value for option, value in zip(argv, argv[1:]) if option == "--backend"]
    return bool(named) and named[-1] in request["under_mpirun"]


def mpirun_of(ranks, options=()):
    """Returns the command that runs the commands of `ranks`, in their order, as one job of MPI. The
    ranks are bound to no core, as those of other back ends."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    argv = [shutil.which("mpirun"), "--quiet", *root, "--oversubscribe", "--bind-to", "none",
            *options]
    for number, rank in enumerate(ranks):
        argv += [*([":"] if number else []), "-np", "1", *rank]
    return argv


def into_file(argv, file):
    return ["/bin/sh", "-c", INTO_FILE, "sh", str(file), *argv]
