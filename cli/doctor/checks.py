"""Checks of `gradwire doctor` beyond cli/hosts/checks.py. Each function yields a sentence for each
problem: what was got, what was expected and what to do."""
import statistics

from cli.hosts.checks import interface_with, is_address, is_loopback, usual

MOST_SECONDS_APART = 0.5  # of clocks
SLOW_LINK = 1 / 4  # of the usual speed
MOST_LATENCY = 0.02  # seconds, unless more is usual
USUAL_MTU = 1500
GIB = 1 << 30
# Instruction sets by which libraries choose their kernels.
SETS = ("sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni", "avx512f", "avx512bw",
        "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
        "amx_int8", "amx_bf16", "asimd", "asimddp", "bf16", "i8mm", "sve", "sve2")


def mtu_of(host):
    found = interface_with(host, host.address)
    return found[2] if found else USUAL_MTU


def names(hosts):
    """Own names, and the others' names, mean the right addresses on each host."""
    for host in hosts:
        own = host.facts["host"]
        if len(hosts) > 1 and any(map(is_loopback, host.facts["own"])):
            yield (f"host {host.name}: its own name '{own}' means "
                   f"{', '.join(host.facts['own'])} there, loopback, expected {host.address}; "
                   f"write '{host.address} {own}' in its /etc/hosts in place of that line")
        for other in hosts:
            means = host.facts["means"].get(other.name)
            if is_address(other.name) or other.name == own or not means:
                continue
            if other.address not in means:
                yield (f"host {host.name}: '{other.name}' means {', '.join(means)} there, expected "
                       f"{other.address} as here; look at its /etc/hosts")


def mtu(hosts, ways):
    """All interfaces have the same MTU, and packets of that size arrive."""
    sizes = [mtu_of(host) for host in hosts]
    expected = max(sizes, key=lambda size: (sizes.count(size), size))
    for host, size in zip(hosts, sizes):
        if size != expected:
            name = (interface_with(host, host.address) or ("its interface",))[0]
            yield (f"host {host.name}: got MTU {size} of {name}, expected {expected} as the others "
                   f"have; there: ip link set {name} mtu {expected}")
    for way, arrives in ways.large.items():
        if ways.small[way] and not arrives:
            size = min(sizes[way.start], sizes[way.end])
            yield (f"{arrow(hosts, way)}: packets of {size} bytes are lost, smaller ones arrive, "
                   f"expected all to arrive; a device between them has an MTU below {size}")


def arrow(hosts, way):
    return f"{hosts[way.start].name} → {hosts[way.end].name}"


def taken_port(hosts, port):
    for host in hosts[:2]:  # where a coordinator may be
        if problem := host.facts.get("port_problem"):
            yield (f"host {host.name}: port {port}: {problem}, expected it to be free; see which "
                   "program has it: ss -ltnp, or use another --port")


def ports(hosts, ways):
    for way, found in ways.ports.items():
        closed = {port: why for port, why in found.items() if why}
        if not closed:
            continue
        back = ways.ports[type(way)(way.end, way.start)]
        other_way = f"the other way is {'closed, too' if any(back.values()) else 'open'}"
        numbers = " and ".join(map(str, closed))
        yield (f"{arrow(hosts, way)}: port {numbers}: {next(iter(closed.values()))}, expected all "
               f"to be open ({other_way}); look at the firewall of {hosts[way.end].name}: "
               "nft list ruleset")


def best_links(ways, count):
    """Returns the speed of each host's fastest link."""
    return [max((speed for way, speed in ways.speed.items()
                 if speed and place in (way.start, way.end)), default=0) for place in range(count)]


def slow_ways(ways, count):
    """Returns ways below a quarter of the median of the hosts' best links, and that median."""
    expected = statistics.median_high(best_links(ways, count))
    return {way: speed for way, speed in ways.speed.items()
            if speed and speed < SLOW_LINK * expected}, expected


def slow_links(hosts, ways):
    """Names a host in place of its links if all of them are slow."""
    slow, expected = slow_ways(ways, len(hosts))
    best = best_links(ways, len(hosts))
    of_hosts = [place for place, speed in enumerate(best) if 0 < speed < SLOW_LINK * expected]
    for place in of_hosts:
        yield (f"host {hosts[place].name}: all its links are slow: got at most {gbit(best[place])}, "
               f"expected about {gbit(expected)} as the others have; look at 'ethtool' of its "
               "interface, its cable, and what else uses it")
    for way, speed in slow.items():
        if way.start not in of_hosts and way.end not in of_hosts:
            yield (f"{arrow(hosts, way)}: got {gbit(speed)}, expected about {gbit(expected)} as "
                   "the others have; look at the cables and switches between them, and what else "
                   "uses them")


def latency(hosts, ways):
    known = {way: seconds for way, seconds in ways.seconds.items() if seconds}
    if not known:
        return
    expected = statistics.median(known.values())
    for way, seconds in known.items():
        if way.start < way.end and seconds > max(MOST_LATENCY, 10 * expected):
            yield (f"{arrow(hosts, way)}: got {seconds * 1e3:.1f} ms one way, expected about "
                   f"{expected * 1e3:.1f} ms as the others have; look at 'ip route get' on both")


def stalled(hosts, ways):
    for way, problem in ways.problems.items():
        yield (f"{arrow(hosts, way)}: connects, but data do not arrive: {problem}, expected them "
               "to arrive; look at the MTU of the devices between them")


def gbit(bytes_a_second):
    return f"{bytes_a_second * 8 / 1e9:.3g} Gbit/s"


def clocks(hosts, ahead):
    """All clocks agree. `ahead`: seconds by which each is ahead of this machine."""
    # If as many clocks are earlier as later: this machine's, or the one nearest to it.
    usual_time = min(statistics.median_low([0, *ahead]), statistics.median_high([0, *ahead]), key=abs)
    for host, seconds in zip(hosts, ahead):
        apart = seconds - usual_time
        if abs(apart) > MOST_SECONDS_APART:
            word = "ahead" if apart > 0 else "behind"
            yield (f"host {host.name}: its clock is {abs(apart):.1f} s {word}, expected at most "
                   f"{MOST_SECONDS_APART:g} s; there: timedatectl set-ntp true (package "
                   "systemd-timesyncd or chrony)")


def sets_of(host):
    return [name for name in SETS if name in host.facts["flags"]]


def instruction_sets(hosts):
    expected = usual([tuple(sets_of(host)) for host in hosts])
    for host in hosts:
        got = sets_of(host)
        lacks = [name for name in expected if name not in got]
        more = [name for name in got if name not in expected]
        differs = [f"lacks {' '.join(lacks)}"] if lacks else []
        differs += [f"has {' '.join(more)} beside"] if more else []
        if differs:
            yield (f"host {host.name}: got instruction set of {host.facts['model'] or 'its CPU'}, "
                   f"which {' and '.join(differs)}, expected that of the others, because bits "
                   "and speed depend on it; use hosts of one kind, or export OPENBLAS_CORETYPE, "
                   "ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA for the weakest of them on all")


def threads(hosts, workers):
    for host, count in zip(hosts, workers):
        if host.facts["cores"] < count:
            yield (f"host {host.name}: got {host.facts['cores']} cores for {count} workers, "
                   "expected at least one for each; lower slots=N or --per-host")


def load(hosts):
    """Warns of a host on which other programs use all cores. Compares with all cores of the
    machine, because the load of a container is that of its machine."""
    for host in hosts:
        if host.facts["load"] > host.facts["cpus"]:
            yield (f"host {host.name}: got a load of {host.facts['load']:.1f} in the last minute "
                   f"on {of_cores(host.facts['cpus'])}, expected at most {host.facts['cpus']}; a run "
                   "would share them and be slow: end what else runs there (top), or wait")


def of_cores(count):
    return f"{count} core{'s' if count > 1 else ''}"


def memory(hosts, workers, each):
    """Each host has memory for its workers. `each`: bytes for a worker."""
    for host, count in zip(hosts, workers):
        if host.facts["memory"] < count * each:
            yield (f"host {host.name}: got {host.facts['memory'] / GIB:.2g} GiB of free memory, "
                   f"expected {count * each / GIB:.2g} GiB for {count} "
                   f"worker{'s' if count > 1 else ''}; end what else runs there, or lower "
                   "--batch-size and --memory-gib")
