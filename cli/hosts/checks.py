"""What must be so on the hosts of a run, from what probe.py found there: one function for each. It
gives a sentence for each thing that is not, with what was got, what was expected and what to do."""
import collections
import dataclasses
import ipaddress

LEAST_FREE = 16 << 20  # bytes for temporary files
TEST_BEDS = (".cloudlab.us", ".emulab.net", ".apt.emulab.net", ".cloudlab.umass.edu")
SHOWN_FILES = 3


@dataclasses.dataclass
class Host:
    """One of them."""
    name: str  # as in the file, without the user
    address: str  # under which others reach it
    facts: dict  # what probe.py found


def is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def interface_with(host, address):
    """Name, network and MTU of the interface that has it; None if there is none."""
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
    """Its address in that network; "" without."""
    return next((address for _, address, _ in own_addresses(host)
                 if ipaddress.ip_address(address) in network), "")


def usual(values):
    """The most frequent; of equals the first."""
    return collections.Counter(values).most_common(1)[0][0]


def named(host):
    return host.name if host.name == host.address else f"{host.name} ({host.address})"


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
    """Each has the address that its name means here."""
    for host in hosts:
        if host.address not in host.facts["held"]:
            own = ", ".join(f"{address} ({name})" for name, address, _ in own_addresses(host))
            yield (f"host {host.name}: its name means {host.address} here, expected one of its own "
                   f"addresses, which are {own or 'none'}; look at /etc/hosts here, and whether "
                   "another host answered")


def other_network(hosts):
    """A name that means an address in another network than those of the others."""
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
                   f"expected {better}, for the other hosts are in {expected}; write {better} in "
                   f"the file, or use --network {expected}")


def control_network(hosts):
    """All are in a network that is not made for experiments, and there is one that is."""
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
                   f"expected {address_in(host, better)}, for all hosts have addresses in {better}; "
                   f"write {address_in(host, better)} in the file, or use --network {better}")


def route(hosts):
    """Each leaves for the others from the address under which they know it."""
    for host in hosts:
        for address, used in host.facts["from"].items():
            if used == host.address or is_loopback(address):
                continue
            if not used:
                yield (f"host {host.name}: no way to {address}, expected one through "
                       f"{host.address}; look at 'ip route' there")
            else:
                yield (f"host {host.name}: leaves for {address} from {used}, expected "
                       f"{host.address}; look at 'ip route get {address}' there")


def room_for_files(hosts):
    for host in hosts:
        free, folder = host.facts["free"], host.facts["temporary"]
        if free < LEAST_FREE:
            yield (f"host {host.name}: got {free >> 20} MiB free in {folder}, expected "
                   f"{LEAST_FREE >> 20} at least; make room there, or set TMPDIR there")


def data(hosts, folder):
    """All have the same files as the most have."""
    found = [host.facts.get("data") for host in hosts]
    if not any(found):
        return
    there = [one["sum"] for one in found if one["count"]]
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
    """Such as weights."""
    for path in hosts[0].facts["sizes"]:
        sizes = [host.facts["sizes"][path] for host in hosts]
        there = [size for size in sizes if size is not None]
        for host, size in zip(hosts, sizes):
            if size is None:
                yield f"host {host.name}: no '{path}', expected it on every host; copy it there"
            elif size != usual(there):
                yield (f"host {host.name}: '{path}' has {size} bytes, expected {usual(there)} as "
                       "on the others; copy it there")
