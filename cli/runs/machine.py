"""The machine and settings on which figures depend."""
import datetime
import os

from cli.hosts.probe import lines_of, value_in
from cli.runs.made_hosts import MADE


def describe_machine(versions, cores=None):
    """Returns date (UTC), cores, CPU model and kernel, then `versions`. `cores`: those of this process
    that a container leaves it; None: all."""
    kernel = os.uname()
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"date": now.strftime("%Y-%m-%d %H:%M UTC"),
            "cores": cores or len(os.sched_getaffinity(0)),
            "cpu": value_in(lines_of("/proc/cpuinfo"), "model name") or "unknown",
            "kernel": f"{kernel.sysname} {kernel.release}",
            **versions}


def where(request):
    if kind := MADE.get(request["hosts"]):
        return f"{request['workers']} {kind} on this machine (--hosts {request['hosts']})"
    if request["hosts"] or request["hostfile"]:
        return "a host for each rank"
    return "all processes on this machine"


def describe_environment(request, torch):
    """Returns all facts on which figures depend. `torch`: the peers' PyTorch, or None."""
    gbit = request["link_gbit"]
    rates = [link["rate"] for link in request.get("link", [])] if request["hosts"] else []
    return {**describe_machine(request["versions"], request.get("cores")),
            **({"pytorch": torch} if torch else {}),
            "hosts": where(request),
            "link": ", ".join(rates) or ("unshaped" if gbit is None else f"{gbit:g} Gbit/s")}
