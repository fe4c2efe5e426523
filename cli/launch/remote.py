"""`gradwire launch --hostfile`: the hosts, the checks before anything starts, and the files that come
back from them."""
import contextlib
import json
import os
import pathlib
import shutil

from cli.hosts import checks
from cli.hosts.ask import ask_all
from cli.hosts.link import Link, raise_unready
from cli.hosts.places import network_of, read_places
from cli.hosts.probe import version_of
from cli.launch.members import Site
from cli.launch.run_token import token_of
from cli.launch.summaries import is_whole
from cli.runs.coordinator import parse_addresses
from cli.runs.failure import EXIT_USAGE, Failure, within
from cli.runs.hosts import addresses_of, find_ssh
from cli.runs.output_file import replace_file
from cli.runs.process import Command, text_of

SECONDS_TO_CONNECT = 35
SECONDS_TO_ANSWER = 30
SECONDS_TO_COLLECT = 600
SECONDS_TO_COLLECT_AFTER_FAILURE = 3
# Prefixes of this process's variables that a host also gets.
PASSED_ON = ("GRADWIRE_", "OMP_", "OPENBLAS_", "GRPC_", "NO_COLOR")
# Folders of data sets without --data-dir.
USUAL_FOLDERS = {"fashion-mnist": "/usr/share/datasets/fashion-mnist"}
MADE_UP = ("synthetic", "synthetic-tokens")
AWAIT_PORTS = 'until grep -q ^grpc= "$1" 2>/dev/null; do sleep 0.02; done; cat "$1"'
WRITE = 'umask 077; cat > "$1"'
LOOPBACK = ("127.", "localhost:", "[::1]:")


def environment_there():
    return {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}


def folder_of(request):
    """Returns the folder with the hosts' data; "" if there is none, or the worker must complain."""
    if request["dataset"] in MADE_UP:
        return ""
    return request["data_dir"] or USUAL_FOLDERS.get(request["dataset"], "")


class LaunchHosts:
    """The hosts of a launch. Failure from the constructor as of read_places and addresses_of."""

    def __init__(self, request, supervisor):
        self._supervisor = supervisor
        self._places = read_places(request["hostfile"], request["per_host"], request["workers"])
        self._network = network_of(request["network"])
        self._lines = [line for line, _ in self._places]
        self._token = token_of(request["token_file"])
        self._addresses = self._addresses_here(request["hostfile"])
        program = request["program"] and os.path.abspath(request["program"])
        self.request = {**request, "program": program}
        ssh = find_ssh()
        self._links = [Link(line.name, ssh, supervisor, request["lease_seconds"])
                       for line in self._lines]

    @property
    def coordinator_address(self):
        return self._addresses[0]

    def prepare(self, arguments):
        """Waits for all hosts and checks them. Returns the Sites of the workers. Failure names all
        problems; no program has been started then."""
        self._wait(lambda: all(link.ready or link.lost for link in self._links),
                   SECONDS_TO_CONNECT)
        raise_unready(self._links)
        facts = self._check()
        self._check_listen()
        self._sites = [Site(link.folder, workers, link, address, fact["cores"])
                       for link, address, (_, workers), fact
                       in zip(self._links, self._addresses, self._places, facts)]
        self._send_files()
        return self._sites

    def bound_addresses(self, port_file, seconds):
        """Returns the coordinator's addresses. Failure if it does not listen in time."""
        waiting = self._supervisor.add(Command(["/bin/sh", "-c", AWAIT_PORTS, "sh", port_file], {},
                                               link=self._links[0]))
        if not self._supervisor.run_until(lambda: waiting.ended, seconds):
            waiting.signal(9)
            raise Failure(f"the coordinator wrote no address to '{port_file}' on host "
                          f"{self._lines[0].network_name} within {seconds} s")
        text = text_of(waiting.out)
        if given := self.request["coordinator"].get("port-file"):
            replace_file(given, text)
        return parse_addresses(text)

    def collect(self, members, cause):
        """Fetches summaries, traces and logs. Failure names the logs that are still on a host."""
        fetched = [self._fetch(members.here.file(f"fetched-{number}"), *one)
                   for number, one in enumerate(self._wanted(members))]
        fetched.sort(key=lambda one: one.adopted)
        seconds = SECONDS_TO_COLLECT_AFTER_FAILURE if cause else SECONDS_TO_COLLECT
        self._supervisor.wait_for(lambda: all(one.process.ended for one in fetched), seconds)
        for one in fetched:
            one.close()
        logs = [one for one in fetched if one.is_log]
        put_logs(logs)
        for one in fetched:
            if one.is_complete and not one.is_log:
                one.put()
            one.remove()
        kept = [one for one in logs if one.problem or not one.adopted and not one.is_complete and
                (not cause or not one.process.ended or one.link.lost)]
        for link in self._links:
            if not any(one.link is link for one in kept):
                link.forget_logs()
        problems = [f"{one.problem}; {one.there} of host {one.link.name} is lost"
                    for one in fetched if one.problem and not one.is_log]
        problems += [f"a log is still on host {one.link.name}: {one.there}" +
                     (f" ({one.problem})" if one.problem else "") for one in kept]
        if problems:
            raise Failure("; ".join(problems))

    def _wanted(self, members):
        """Yields (site, file there, file here, whether it belongs to a rank that another worker
        began). After a loss any worker may have carried any rank."""
        request, here = self.request, members.here
        for site in self._sites:
            own = {rank for number in site.workers for rank in members.ranks(number)}
            for rank in range(request["world_size"]) if self._supervisor.lost else sorted(own):
                adopted = rank not in own
                if not request["program"]:
                    yield site, site.summary_file(rank), here.summary_file(rank), adopted
                    if request["log_jsonl"]:
                        yield site, site.log_file(rank), members.log_file(str(rank)), adopted
            if request["trace"]:
                for number in site.workers:
                    yield site, site.trace_file(number), here.trace_file(number), False
        site, number = self._sites[0], request["workers"]
        if request["coordinator"] and not request["program"]:
            yield site, site.aggregation_file, members.aggregation_file, False
        if request["coordinator"] and request["trace"]:
            yield site, site.trace_file(number), here.trace_file(number), False

    def _fetch(self, part, site, there, here, adopted):
        one = Fetched(part, site.link, there, here, adopted)
        one.process = self._supervisor.add(Command(["/bin/cat", there], {}, link=site.link),
                                           one.take)
        return one

    def _addresses_here(self, path):
        if self._network:
            return [""] * len(self._lines)  # the hosts are asked
        with within(f"--hostfile: {path}"):
            return addresses_of(self._lines)

    def _wait(self, ready, seconds):
        """Waits as ask.py needs it. Failure after a signal."""
        if self._supervisor.wait_for(ready, seconds) or not self._supervisor.signalled:
            return
        raise Failure("stopped", 128 + self._supervisor.signalled)

    def _check(self):
        """Returns the hosts' answers. Failure names all problems."""
        self._addresses = self._addresses_there() if self._network else self._addresses
        request = self.request
        wants = {"program": request["programs"]["gradwire"], "programs": [
                     request["program"] or request["programs"]["worker"],
                     request["programs"]["coordinator"]],
                 "holds": self._addresses, "towards": self._addresses,
                 "files": [path for path in (request["weights"],) if path],
                 "folder": folder_of(request)}
        facts = self._ask(wants)
        hosts = [checks.Host(line.network_name, address, fact) for line, address, fact
                 in zip(self._lines, self._addresses, facts)]
        expected, _ = version_of(request["programs"]["gradwire"])
        problems = [*checks.version(hosts, expected), *checks.programs(hosts),
                    *(() if self._network else checks.holds_address(hosts)),
                    *checks.other_network(hosts), *checks.control_network(hosts),
                    *checks.route(hosts), *checks.room_for_files(hosts),
                    *checks.data(hosts, wants["folder"]), *checks.files(hosts)]
        if problems:
            raise Failure("\n".join([*problems, "nothing was started; 'gradwire doctor' checks "
                                     "more"]), EXIT_USAGE)
        return facts

    def _addresses_there(self):
        found = []
        for line, fact in zip(self._lines, self._ask({})):
            host = checks.Host(line.network_name, "", fact)
            found.append(checks.address_in(host, self._network))
            if not found[-1]:
                raise Failure(f"host {host.name}: no address in {self._network}, expected one "
                              "(--network)", EXIT_USAGE)
        return found

    def _ask(self, questions):
        return ask_all(self._supervisor, self._links, questions,
                       lambda ready, deadline: self._wait(ready, SECONDS_TO_ANSWER),
                       SECONDS_TO_ANSWER)

    def _check_listen(self):
        options = self.request["coordinator"] or {}
        if len(self._lines) > 1 and options.get("listen", "").startswith(LOOPBACK):
            raise Failure(f"--listen: got {options['listen']}, where other hosts cannot reach it; "
                          f"omit it, or give {self._addresses[0]}:PORT", EXIT_USAGE)

    def _send_files(self):
        """Sends the token, and the workers' --config, which is on this machine and named by a
        variable, so that no list of processes shows them."""
        sent = [self._send(site.link, site.token_file, self._token) for site in self._sites]
        if self.request["config"]:
            text = pathlib.Path(self.request["config"]).read_text(errors="surrogateescape")
            sent += [self._send(site.link, site.file("config"), text) for site in self._sites]
        self._wait(lambda: all(one.ended for one in sent), SECONDS_TO_ANSWER)

    def _send(self, link, path, text):
        return self._supervisor.add(Command(["/bin/sh", "-c", WRITE, "sh", path], {}, link=link,
                                            stdin=text))


class Fetched:
    """A file of a host that is copied to `part`, and then becomes `here` or a part of it.
    `adopted`: of a rank that another worker began. `problem`: why it could not be written."""

    def __init__(self, part, link, there, here, adopted):
        self.part, self.link, self.there, self.here, self.adopted = part, link, there, here, adopted
        self.process = None
        self.problem = ""
        self._file = None
        self._try(self._open)

    @property
    def is_log(self):
        return self.there.endswith(".jsonl")

    @property
    def is_complete(self):
        return self.process.status == 0 and not self.problem

    def take(self, content):
        self._try(lambda: self._file.write(content))

    def close(self):
        if not self.process.ended:
            self.process.signal(9)
        if self._file:
            self._try(self._file.close)

    def put(self):
        """Replaces the file here, except that a summary of an early end never replaces a whole
        one."""
        if not (self.adopted and is_whole(self.here) and not is_whole(self.part)):
            self._try(lambda: os.replace(self.part, self.here))

    def append_to(self, log):
        with open(self.part, "rb") as more:
            shutil.copyfileobj(more, log)

    def remove(self):
        with contextlib.suppress(OSError):
            os.unlink(self.part)

    def first_step(self):
        """Returns the step of the first line that has one; None if there is none."""
        with open(self.part, "rb") as lines:
            for line in lines:
                step = step_of(line)
                if step is not None:
                    return step
        return None

    def _open(self):
        self._file = open(self.part, "wb")

    def _try(self, action):
        """Notes the first problem, after which no action counts."""
        if not self.problem:
            try:
                action()
            except OSError as error:
                path = error.filename or self.part
                self.problem = f"cannot write {path}: {error.strerror.lower()}"


def step_of(line):
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) else None


def put_logs(logs):
    """Writes the lines of each rank's logs in the order of their steps, as workers of one host do:
    to an empty file if the run began with step 0, else behind those of the run that it resumed."""
    steps = {one: one.first_step() for one in logs if one.is_complete}
    known = [step for step in steps.values() if step is not None]
    began_anew = bool(steps) and min(known, default=0) == 0
    for path in {one.here: None for one in logs}:
        parts = [one for one in steps if one.here == path and os.path.getsize(one.part)]
        parts.sort(key=lambda one: (steps[one] is None, steps[one] or 0, one.adopted))
        try:
            if parts:
                with open(path, "wb" if began_anew else "ab") as log:
                    for one in parts:
                        one.append_to(log)
            elif known and began_anew and os.path.isfile(path):
                os.unlink(path)  # of another run
        except OSError as error:
            for one in parts:
                one.problem = f"cannot write {path}: {error.strerror.lower()}"
