"""Where the processes of a measurement run."""
import os
import sys

from cli.runs.failure import Failure
from cli.runs.jobs import run_job
from cli.runs.process import Command

THIS_MACHINE = "127.0.0.1"
SECONDS_TO_ANSWER = 60


def own_environment():
    """This process's, without GRADWIRE_* variables: those of this shell are not for a
    measurement."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GRADWIRE_")}


class Hosts:
    """This machine, or hosts that a program makes and drives:

    PROGRAM up N RATE     make hosts 0 ... N-1 with links of RATE (tc's notation)
    PROGRAM run I CMD...  run CMD on host I, in the foreground
    PROGRAM addr I        print host I's address
    PROGRAM down          end and remove all hosts

    `program` empty: this machine. They are there within `with`; Failure from there as of Jobs,
    naming the program. `check` as that of Jobs.
    """

    def __init__(self, program, count, rate, check):
        self.program = program
        self.count = count
        self._rate = rate
        self._check = check
        self._addresses = [THIS_MACHINE] * count

    def __enter__(self):
        if not self.local:
            try:
                self._up()
            except BaseException:
                self._down()
                raise
        return self

    def __exit__(self, *_):
        if not self.local:
            self._down()

    @property
    def local(self):
        return not self.program

    @property
    def names(self):
        """Of all hosts, by which they are told apart."""
        return [THIS_MACHINE if self.local else str(host) for host in range(self.count)]

    def shape(self, rate):
        """Makes the program's hosts anew, with links of `rate`, unless they have it. Failure as
        from `with`."""
        if self.local or rate == self._rate:
            return
        self._down()
        self._rate = rate
        self._up()

    def address(self, host):
        return self._addresses[host]

    def command(self, host, argv, environment=None):
        """`argv` as a command that runs on a host, with what is more than own_environment()."""
        prefix = [] if self.local else [self.program, "run", str(host)]
        return Command([*prefix, *argv], {**own_environment(), **(environment or {})})

    def _up(self):
        self._ask("up", str(self.count), self._rate)
        self._addresses = [self._ask("addr", str(host)).strip() for host in range(self.count)]

    def _ask(self, *args):
        # What it leaves may be the hosts.
        command = Command([self.program, *args], own_environment(), leaves_others=True)
        return run_job(" ".join(command.argv), command, SECONDS_TO_ANSWER, self._check)

    def _down(self):
        command = Command([self.program, "down"], own_environment())
        try:
            run_job(f"{self.program} down", command, SECONDS_TO_ANSWER, lambda: None)
        except Failure as failure:
            print(f"warning: {failure}", file=sys.stderr, flush=True)
