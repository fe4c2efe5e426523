"""Measures the way between two hosts. Runs there from its own text (python3 -c). Its arguments are
JSON:

    serve {"ports": [...]}    listens at these and a free one, prints {"ports": [...], "udp": port}
                              and serves until it is ended
    try   [{"address", "ports", "udp", "bytes"}, ...]    prints for each {"ports": {port: "" or why
                              not}, "small", "large": whether datagrams return}
    measure {"address", "port"}    prints {"seconds" one way, "out", "in": bytes a second, "problem"}
"""
import concurrent.futures
import json
import socket
import statistics
import struct
import sys
import threading
import time

ECHO, SINK, SOURCE = b"E", b"S", b"F"
CHUNK = bytes(1 << 16)
SECONDS_TO_CONNECT = 2
SECONDS_TO_SEND = 0.25
SECONDS_TO_STALL = 3
ECHOES = 30
TRIES = 3
SECONDS_PER_TRY = 0.3
COUNT = struct.Struct(">Q")
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # never fragment
HEADERS = 28  # of IP and UDP


def receive_all(connection):
    count = 0
    while chunk := connection.recv(1 << 20):
        count += len(chunk)
    return count


def send_for_a_while(connection):
    until = time.monotonic() + SECONDS_TO_SEND
    while time.monotonic() < until:
        connection.sendall(CHUNK)
    connection.shutdown(socket.SHUT_WR)


def attend(connection):
    connection.settimeout(2 * SECONDS_TO_STALL)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        kind = connection.recv(1)
        if kind == ECHO:
            while said := connection.recv(16):
                connection.sendall(said)
        elif kind == SINK:
            connection.sendall(COUNT.pack(receive_all(connection)))
        elif kind == SOURCE:
            send_for_a_while(connection)
    except OSError:
        pass
    finally:
        connection.close()


def accept_all(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=attend, args=(connection,), daemon=True).start()


def serve(order):
    bound = []
    for port in [*order["ports"], 0]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0", port))
            listener.listen(64)
        except OSError:  # the probe of the host says why
            continue
        bound.append(listener.getsockname()[1])
        threading.Thread(target=accept_all, args=(listener,), daemon=True).start()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("0.0.0.0", 0))
    print(json.dumps({"ports": bound, "udp": datagrams.getsockname()[1]}), flush=True)
    while True:
        said, sender = datagrams.recvfrom(1 << 16)
        datagrams.sendto(said[:16], sender)


def why_not(address, port):
    try:
        socket.create_connection((address, port), SECONDS_TO_CONNECT).close()
    except socket.timeout:
        return "no answer within %d s" % SECONDS_TO_CONNECT
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def datagram_comes_back(address, port, size):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        asked.settimeout(SECONDS_PER_TRY)
        for _ in range(TRIES):
            try:
                asked.sendto(bytes(size - HEADERS), (address, port))
                asked.recv(16)
                return True
            except OSError:
                continue
    return False


def try_one(peer):
    small = datagram_comes_back(peer["address"], peer["udp"], 100)
    return {"ports": {port: why_not(peer["address"], port) for port in peer["ports"]},
            "small": small,
            "large": small and datagram_comes_back(peer["address"], peer["udp"], peer["bytes"])}


def try_all(peers):
    with concurrent.futures.ThreadPoolExecutor(max(1, len(peers))) as pool:
        print(json.dumps([*pool.map(try_one, peers)]))


def connected(order, kind):
    connection = socket.create_connection((order["address"], order["port"]), SECONDS_TO_CONNECT)
    connection.settimeout(SECONDS_TO_STALL)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(kind)
    return connection


def seconds_one_way(order):
    with connected(order, ECHO) as connection:
        taken = []
        for _ in range(ECHOES):
            start = time.monotonic()
            connection.sendall(b".")
            connection.recv(1)
            taken.append(time.monotonic() - start)
    return statistics.median(taken) / 2


def speed_out(order):
    with connected(order, SINK) as connection:
        start = time.monotonic()
        send_for_a_while(connection)
        (count,) = COUNT.unpack(connection.recv(COUNT.size, socket.MSG_WAITALL))
        return count / (time.monotonic() - start)


def speed_in(order):
    with connected(order, SOURCE) as connection:
        start = time.monotonic()
        return receive_all(connection) / (time.monotonic() - start)


def measure(order):
    found = {"seconds": None, "out": None, "in": None, "problem": ""}
    try:
        found["seconds"] = seconds_one_way(order)
        found["out"] = speed_out(order)
        found["in"] = speed_in(order)
    except (OSError, struct.error) as error:
        found["problem"] = str(error) or "nothing arrives"
    print(json.dumps(found))


if __name__ == "__main__":
    {"serve": serve, "try": try_all, "measure": measure}[sys.argv[1]](json.loads(sys.argv[2]))
