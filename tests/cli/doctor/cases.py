"""Hosts and ways as `gradwire doctor` finds them where all is well."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.doctor.ways import Way, Ways
from cli.hosts.checks import Host


def hosts_of(count, **facts):
    return [Host(f"10.0.0.{i}", f"10.0.0.{i}", {"host": f"n{i}", "own": [], "means": {}, "flags": [],
                 "interfaces": [["eth0", f"10.0.0.{i}", 24, 1500]], "model": "M", **facts})
            for i in range(1, count + 1)]


def ways_of(count, **changes):
    """`changes`: speed={(0, 1): x} and so on, in place of good values."""
    all_ways = [Way(a, b) for a in range(count) for b in range(count) if a != b]
    good = {"ports": {29400: "", 5: ""}, "small": True, "large": True, "seconds": 1e-4, "speed": 1e8}
    return Ways(**{name: {way: changes.get(name, {}).get((way.start, way.end), value)
                          for way in all_ways} for name, value in good.items()}, problems={})
