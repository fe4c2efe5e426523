"""Lets the ranks of the peers' scripts find each other."""
import datetime
import fcntl
import os
import socket
import struct

import torch.distributed

# Debian's 2.6 uses libuv by default, but is built without it.
os.environ.setdefault("USE_LIBUV", "0")

SIOCGIFADDR = 0x8915  # ioctl: IPv4 address of an interface


def add_options(parser):
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--master", required=True, metavar="HOST:PORT", help="where rank 0 listens")


def interface_towards(host):
    """Returns the interface that leads to a host; None if it is not known."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((host, 9))
        address = s.getsockname()[0]
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                reply = fcntl.ioctl(s.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue  # it has no IPv4 address
            if socket.inet_ntoa(reply[20:24]) == address:
                return name
    return None


def join(a):
    """Makes this process a rank, over the interface that leads to the master."""
    host = a.master.rsplit(":", 1)[0]
    interface = interface_towards(host)
    if interface and "GLOO_SOCKET_IFNAME" not in os.environ:
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    torch.distributed.init_process_group(
        "gloo", init_method="tcp://" + a.master, rank=a.rank, world_size=a.world_size,
        timeout=datetime.timedelta(minutes=5))
