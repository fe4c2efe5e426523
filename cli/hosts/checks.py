"""Checks of the hosts of a run, from what probe.py found there. Each function yields a sentence for
each problem: what was got, what was expected and what to do."""
import collections
import dataclasses
import ipaddress

LEAST_FREE = 16 << 20  # bytes for temporary files
TEST_BEDS = (".cloudlab.us", ".emulab.net", ".apt.emulab.net", ".cloudlab.umass.edu")
SHOWN_FILES = 3


@dataclasses.dataclass
class Host:
    """A host."""
    name: str  # as in the file, without the user
    address: str  # at which others reach it
    facts: dict  # of probe.py


def is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def interface_with(host, address):
    """Returns name, network and MTU of the interface with the address; None if there is none."""
    for name, own, bits, mtu in host.facts["interfaces"]:
        if own == address:
            return name, ipaddress.ip_network(f"{own}/{bits}", strict=False), mtu
    return None


def is_loopback(address):
    return ipaddress.ip_address(address).is_loopback


def own_addresses(host):
    return [(name, address, ipaddress.ip_network(f"{address}/{bits}", strict=False))
            for name, address, bits, _ in host.facts["interfaces"] if not is_loopback(address)]


def address_in(host, network):
    """Returns its address in that network; "" if it has none."""
    return next((address for _, address, _ in own_addresses(host)
                 if ipaddress.ip_address(address) in network), "")


def usual(values):
    """Returns the most frequent value; of several, the first."""
    return collections.Counter(values).most_common(1)[0][0]


def version(hosts, expected):
    for host in hosts:
        got, problem = host.facts["version"], host.facts["version_problem"]
        if problem:
            yield (f"host {host.name}: {problem}, expected {expected}; deploy/provision installs "
                   "it there")
        elif got != expected:
            yield (f"host {host.name}: got version '{got}', expected '{expected}' as here; "
                   "deploy/provision installs the same everywhere")


def programs(hosts):
    for host in hosts:
        for path in host.facts["missing"]:
            yield (f"host {host.name}: no '{path}' that can be run, expected it where it is here; "
                   "deploy/provision installs it there")


def holds_address(hosts):
    """Each host has the address that its name means here."""
    for host in hosts:
        if host.address not in host.facts["held"]:
            own = ", ".join(f"{address} ({name})" for name, address, _ in own_addresses(host))
            yield (f"host {host.name}: its name means {host.address} here, expected one of its own "
                   f"addresses, which are {own or 'none'}; look at /etc/hosts here, and whether "
                   "another host answered")


def other_network(hosts):
    """Each name means an address in the network of the others."""
    networks = [found[1] if (found := interface_with(host, host.address)) else None
                for host in hosts]
    known = [network for network in networks if network]
    expected = usual(known) if known else None
    for host, network in zip(hosts, networks):
        if not network or network == expected:
            continue
        better = address_in(host, expected)
        if better:
            yield (f"host {host.name}: its name means {host.address}, in network {network}, "
                   f"expected {better}, because the other hosts are in {expected}; write {better} "
                   f"in the file, or use --network {expected}")


def control_network(hosts):
    """No host uses a control network although all are in one for experiments."""
    if len(hosts) < 2:
        return
    shared = set.intersection(*({network for _, _, network in own_addresses(host)
                                 if network.is_private} for host in hosts))
    for host in hosts:
        of_bed = host.name.endswith(TEST_BEDS)
        public = ipaddress.ip_address(host.address).is_global
        better = next((network for network in sorted(shared)
                       if ipaddress.ip_address(host.address) not in network), None)
        if (of_bed or public) and better:
            yield (f"host {host.name}: its name means {host.address}, in the control network, "
                   f"expected {address_in(host, better)}, because all hosts have addresses in "
                   f"{better}; write {address_in(host, better)} in the file, or use --network "
                   f"{better}")


def route(hosts):
    """Each host reaches the others from the address at which they know it."""
    for host in hosts:
        for address, used in host.facts["from"].items():
            if used == host.address or is_loopback(address):
                continue
            if not used:
                yield (f"host {host.name}: no route to {address}, expected one from "
                       f"{host.address}; look at 'ip route' there")
            else:
                yield (f"host {host.name}: reaches {address} from {used}, expected "
                       f"{host.address}; look at 'ip route get {address}' there")


def room_for_files(hosts):
    for host in hosts:
        free, folder = host.facts["free"], host.facts["temporary"]
        if free < LEAST_FREE:
            yield (f"host {host.name}: got {free >> 20} MiB free in {folder}, expected "
                   f"{LEAST_FREE >> 20} at least; make room there, or set TMPDIR there")


def data(hosts, folder):
    """All hosts have the files that most have."""
    found = [host.facts.get("data") for host in hosts]
    if not any(found):
        return
    there = [one["sum"] for one in found if one["count"] and not one["problem"]]
    expected = usual(there) if there else None
    model = next((one for one in found if one["sum"] == expected), None)
    of_model = next((host.name for host, one in zip(hosts, found) if one is model), "")
    for host, one in zip(hosts, found):
        if one["problem"] or not one["count"]:
            expects = f"the {model['count']} files that {of_model} has" if model else "a data set"
            yield (f"host {host.name}: '{folder}': {one['problem'] or 'no files in it'}, expected "
                   f"{expects}; copy them: deploy/provision --data {folder}")
        elif one["sum"] != expected:
            differing = sorted(name for name in {**one["files"], **model["files"]}
                               if one["files"].get(name) != model["files"].get(name))
            shown = ", ".join(differing[:SHOWN_FILES]) or "some"
            more = f" and {len(differing) - SHOWN_FILES} more" if len(
                differing) > SHOWN_FILES else ""
            yield (f"host {host.name}: '{folder}': {shown}{more} differ from those of {of_model}, "
                   f"expected the same; copy them: deploy/provision --data {folder}")


def files(hosts):
    """All hosts have the same files, such as weights."""
    for path in hosts[0].facts["sizes"]:
        sizes = [host.facts["sizes"][path] for host in hosts]
        there = [size for size in sizes if size is not None]
        for host, size in zip(hosts, sizes):
            if size is None:
                yield f"host {host.name}: no '{path}', expected it on every host; copy it there"
            elif size != usual(there):
                yield (f"host {host.name}: '{path}' has {size} bytes, expected {usual(there)} as "
                       "on the others; copy it there")
