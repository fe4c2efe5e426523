#!/usr/bin/python3
"""`gradwire launch`, once its options are read. The arguments are those of
cli/launch/launch_request.h, then the workers'."""
import contextlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.launch import losses, summaries
from cli.launch.bottleneck import bottleneck
from cli.launch.members import Members, path_for_rank, reachable
from cli.launch.run_token import token_of, write_token
from cli.launch.signals import Signals
from cli.launch.supervisor import SECONDS_TO_FINISH, Supervisor
from cli.launch.terminal import ERR, OUT, STREAMS, Terminal, draws_bars
from cli.runs.coordinator import SECONDS_TO_LISTEN, bound_addresses
from cli.runs.failure import EXIT_FAILED, EXIT_USAGE, Failure, within
from cli.runs.json_fields import object_in, ranks_text
from cli.runs.mpirun import why_not
from cli.runs.output_file import check_writable, replace_file, scratch_folder
from cli.terminal.command import EXIT_DONE, EXIT_TRY_AGAIN, WrongUsage, run
from cli.trace.merge import merge

PROGRAM = "gradwire launch"
RESUME_AUTO = "auto"  # the default of --resume


class Launch:
    """Starts the members in their order, waits for them, and reports the results."""

    def __init__(self, request, members, terminal, supervisor, hosts=None):
        self._request = request
        self._hosts = hosts  # None: this machine
        self._members = members
        self._terminal = terminal
        self._supervisor = supervisor

    def run(self):
        """Returns the exit code."""
        try:
            self._start_all()
        except Failure as failure:
            self._supervisor.fail(failure.exit_code, str(failure))
        exit_code = self._supervisor.run()
        if self._hosts:
            self._tried(lambda: self._hosts.collect(self._members, self._supervisor.cause))
        traced = self._tried(self._write_trace)
        for sentence in reports_of_workers(self._supervisor):
            self._say(sentence)
        reported = self._tried(lambda: self._report(exit_code))
        printed = self._tried(self._check_printed)
        if self._supervisor.cause:
            self._say(f"{self._supervisor.cause}; all have ended")
            self._say_how_to_resume(exit_code)
            return exit_code
        return EXIT_DONE if traced and reported and printed else EXIT_FAILED

    def _start_all(self):
        coordinator = self._start_coordinator() if self._request["coordinator"] else ""
        for member in self._workers(coordinator):
            self._supervisor.start(member)

    def _workers(self, coordinator):
        numbers = range(self._request["workers"])
        if self._request["program"]:
            return [self._members.program(number, coordinator) for number in numbers]
        if self._request["mpirun"]:
            return [self._members.workers_of_mpirun(coordinator)]
        columns = self._terminal.bar_columns
        return [self._members.worker(number, coordinator, columns) for number in numbers]

    def _start_coordinator(self):
        """Returns its address."""
        port_file, host = self._members.port_file, ""
        if not self._hosts:
            with contextlib.suppress(OSError):
                os.unlink(port_file)  # of a previous run
        self._supervisor.start(self._members.coordinator())
        if self._hosts:
            bound = self._hosts.bound_addresses(port_file, SECONDS_TO_LISTEN)
            host = self._hosts.coordinator_address
        elif self._supervisor.run_until(lambda: "grpc" in bound_addresses(port_file),
                                        SECONDS_TO_LISTEN):
            bound = bound_addresses(port_file)
        else:
            raise Failure(f"the coordinator wrote no address to '{port_file}' within "
                          f"{SECONDS_TO_LISTEN} s")
        metrics = bound.get("metrics", "")
        # Of all addresses, the host's name: browsers of other hosts cannot open 0.0.0.0.
        self._say_where(metrics and reachable(metrics, host or os.uname().nodename))
        return reachable(bound["grpc"], host)

    def _say_where(self, metrics):
        if metrics:
            options = self._request["coordinator"]
            scheme = "https" if "tls-cert" in options and "plain-http" not in options else "http"
            self._say(f"watch the run on {scheme}://{metrics}/; metrics are on "
                      f"{scheme}://{metrics}/metrics")

    def _say_how_to_resume(self, exit_code):
        """After a run with checkpoints, unless it was refused."""
        options = self._request["coordinator"] or {}
        folder, resume = options.get("run-dir"), options.get("resume", RESUME_AUTO)
        if folder and exit_code not in (EXIT_USAGE, EXIT_TRY_AGAIN):
            command = "the same command" + (" with --resume auto" if resume != RESUME_AUTO else "")
            self._say(f"{command} continues the run from its last checkpoint in '{folder}', or from "
                      "step 0 if there is none")

    def _write_trace(self):
        """Also writes the trace of a failed run: it shows what happened before."""
        if not self._request["trace"]:
            return
        processes = self._request["workers"] + (self._request["coordinator"] is not None)
        files = [self._members.here.trace_file(process) for process in range(processes)]
        if self._supervisor.cause or self._supervisor.lost:
            # A process that failed before it joined wrote none; that of a lost host is there.
            missing = [file for file in files if not os.path.exists(file)]
            files = [file for file in files if file not in missing]
            if missing:
                count = f"{len(missing)} process" + ("es" if len(missing) > 1 else "")
                self._say(f"'{self._request['trace']}' lacks the part of {count}, which left none")
        with within("--trace"):
            replace_file(self._request["trace"], merge(files))

    def _report(self, exit_code):
        """Reports all that exists. Failure if the run ended well but summaries are missing."""
        if self._request["program"]:
            return
        request, supervisor = self._request, self._supervisor
        ended = {"code": exit_code, "reason": supervisor.cause} if supervisor.cause else None
        collected = summaries.collect([self._members.here.summary_file(rank)
                                       for rank in range(request["world_size"])], ended)
        collected["coordinator"] = object_in(self._members.aggregation_file)
        if collected["ranks"]:  # first, because the file may fail
            self._print_tables(collected, whole=not ended)
        if request["summary"]:
            replace_file(request["summary"],
                         json.dumps(collected, indent=2, ensure_ascii=False) + "\n")
        lost = {rank for member in supervisor.lost for rank in member.ranks}
        missing = [rank for rank in collected.get("missing_ranks", []) if rank not in lost]
        if missing and not ended:
            raise Failure(f"no summary of {ranks_text(missing)}")

    def _print_tables(self, collected, whole):
        request, per_byte = self._request, self._request["seconds_per_byte"]
        rows = [summaries.with_shares(summary, request["through_coordinator"], per_byte)
                for summary in collected["ranks"]]
        lines = [*summaries.table(rows, request["phases"], per_byte is not None),
                 *summaries.coordinator_table(collected["coordinator"]), *losses.table(rows)]
        if whole:
            lines.append(bottleneck(rows, request["overlapping"], request["halving"],
                                    request["periodic"], request["served"]))
        for line in lines:
            self._terminal.print_line(OUT, line.encode(errors="replace"))

    def _check_printed(self):
        if self._terminal.lost:
            raise Failure("; ".join(f"cannot write to {STREAMS[fd]}: {why}; some lines are missing"
                                    for fd, why in self._terminal.lost.items()))

    def _tried(self, action):
        """Returns whether the action succeeded; says why it did not."""
        try:
            action()
        except Failure as failure:
            self._say(str(failure))
            return False
        return True

    def _say(self, sentence):
        self._terminal.print_line(ERR, f"{PROGRAM}: {sentence}".encode(errors="surrogateescape"))


def how_it_was_lost(member):
    """Describes the loss of a worker, which the launcher may have ended."""
    if not member.was_told_to_end:
        return member.end
    return (f"was lost: {member.loss.cause}; it still existed when the others had finished, so the "
            "launcher ended it")


def reports_of_workers(supervisor):
    """Yields sentences about lost workers, and about those that the launcher had to end."""
    result = "" if supervisor.cause else ", and the result is the same"
    for member in supervisor.lost:
        if member.loss and not member.loss.after_last_step:
            yield f"{member.who} {how_it_was_lost(member)}; the others went on with its ranks{result}"
        elif member.loss or not supervisor.cause:
            yield f"{member.who} {how_it_was_lost(member)}; the others did not need it any more{result}"
    for member in supervisor.late:
        yield (f"{member.who} still existed {SECONDS_TO_FINISH} s after the run had ended well, so "
               "the launcher ended it")


def check_outputs(request):
    """Checks the files that the launcher writes, before anything starts."""
    paths = {"summary": [request["summary"]], "trace": [request["trace"]]}
    if request["hostfile"]:  # else workers and coordinator write them
        paths["log-jsonl"] = [path_for_rank(request["log_jsonl"], str(rank), request["world_size"])
                              for rank in range(request["world_size"]) if request["log_jsonl"]]
        paths["port-file"] = [(request["coordinator"] or {}).get("port-file")]
    for option, path in ((option, path) for option, some in paths.items() for path in some if path):
        try:
            check_writable(path)
        except Failure as failure:
            raise WrongUsage(f"--{option}: {failure}") from None


def check_mpirun(request):
    why = why_not(request) if request["mpirun"] else ""
    if why:
        raise WrongUsage(f"--backend mpi: {why}")


def launch_on_hosts(request, arguments, scratch, terminal, supervisor):
    # Imported only here, because a launch on this machine starts sooner without it.
    from cli.launch.remote import LaunchHosts, environment_there
    hosts = LaunchHosts(request, supervisor)
    sites = hosts.prepare(arguments)
    members = Members(hosts.request, arguments, scratch, environment_there(), sites)
    return Launch(hosts.request, members, terminal, supervisor, hosts).run()


def main(request, arguments):
    check_outputs(request)
    check_mpirun(request)
    with (Signals() as signals, scratch_folder() as scratch, Terminal(draws_bars()) as terminal,
          Supervisor(terminal, signals) as supervisor):
        if request["hostfile"]:
            return launch_on_hosts(request, arguments, scratch, terminal, supervisor)
        members = Members(request, arguments, scratch, dict(os.environ))
        write_token(members.here.token_file, token_of(request["token_file"]))
        return Launch(request, members, terminal, supervisor).run()


if __name__ == "__main__":
    sys.exit(run(PROGRAM, main))
