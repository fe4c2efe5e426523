"""The run that all engines do, so that its hashes can be compared, and what it leaves."""
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests" / "support"))
BIN = pathlib.Path(os.environ.get("GRADWIRE_BIN_DIR", SOURCE / "build" / "bin"))
RANKS = 4
MODEL = ["--model", "lenet", "--dataset", "synthetic", "--seed", "744", "--batch-size", "8",
         "--sync", "ddp", "--threads", "1"]
RUN = [*MODEL, "--iterations", "20"]
ENDLESS = [*MODEL, "--iterations", "10000000"]


def environment(**variables):
    """Of this process, with our programs in PATH and without settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GRADWIRE_")}
    return own | {"PATH": f"{BIN}:{own['PATH']}", "OMP_NUM_THREADS": "1"} | variables


def hashes(summaries):
    return sorted((s["rank"], s["parameters_sha256"], s["buffers_sha256"]) for s in summaries)


def hashes_in(folder, name="summary.{rank}.json"):
    """Of the files that `--summary` of all ranks wrote."""
    files = [pathlib.Path(folder) / name.format(rank=rank) for rank in range(RANKS)]
    return hashes(json.loads(file.read_text()) for file in files)


def launched_hashes(folder):
    """Of the same run under gradwire launch."""
    summary = pathlib.Path(folder) / "launch.json"
    subprocess.run(["gradwire", "launch", "--workers", str(RANKS), "--metrics", "off",
                    "--summary", str(summary), "--", *RUN], env=environment(), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    return hashes(json.loads(summary.read_text())["ranks"])
