"""What figures depend on, as far as the machine goes."""
import datetime
import os
import pathlib


def cpu_model(cpuinfo):
    """"model name" of the first processor in the text of /proc/cpuinfo; "unknown" without."""
    for line in cpuinfo.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def describe_machine(versions):
    """Date (UTC), cores of this process, CPU model and kernel; behind them `versions`."""
    kernel = os.uname()
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"date": now.strftime("%Y-%m-%d %H:%M UTC"),
            "cores": len(os.sched_getaffinity(0)),
            "cpu": cpu_model(pathlib.Path("/proc/cpuinfo").read_text(errors="replace")),
            "kernel": f"{kernel.sysname} {kernel.release}",
            **versions}


def free_memory():
    """Bytes that programs could still take."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def describe_environment(request, torch):
    """What figures depend on. `torch`: version of the peers' PyTorch, or None."""
    gbit = request["link_gbit"]
    rates = [link["rate"] for link in request.get("link", [])] if request["hosts"] else []
    return {**describe_machine(request["versions"]),
            **({"pytorch": torch} if torch else {}),
            "hosts": "a host for each rank" if request["hosts"] or request["hostfile"] else
                     "all processes on this machine",
            "link": ", ".join(rates) or ("unshaped" if gbit is None else f"{gbit:g} Gbit/s")}
