"""Runs programs together, and decides what happens to the others when one of them ends."""
import dataclasses
import math
import signal
import time
from typing import Callable

from cli.launch.lines import LineSplitter
from cli.launch.terminal import ERR, OUT
from cli.runs.failure import EXIT_FAILED
from cli.runs.process import Command, exit_code_of
from cli.runs.process_set import ProcessSet
from cli.terminal.command import EXIT_TRY_AGAIN

SECONDS_TO_LOOK = 0.01
SECONDS_TO_LOOK_AGAIN = 1
SECONDS_TO_SAY_WHY = 0.3
SECONDS_TO_FAIL = 2
SECONDS_TO_STOP = 1.8
SECONDS_TO_WIND_UP = 2
SECONDS_TO_FINISH = 10  # a worker that has nothing left to do, on a host that may be busy
# Exit codes of a program that a signal ended, as shells and our programs have them.
BY_SIGNAL = range(129, 256)


@dataclasses.dataclass(frozen=True)
class Loss:
    """A lost worker, as the coordinator reports it."""
    ranks: frozenset  # its own, and those that it took over
    cause: str
    after_last_step: bool = False  # when no other worker needed it
    ends_run: bool = False  # the others cannot go on without it


@dataclasses.dataclass(frozen=True)
class Member:
    """One of the programs, with the rules for its end."""
    name: str  # "coordinator", "rank 0": its lines begin with "[name] "
    command: Command
    serves: bool = False  # it is done when all that do not serve have ended
    has_bar: bool = False  # its stderr may carry a progress bar
    linger: float = 0  # seconds by which it is ended later than others, except after a signal
    dispensable: bool = False  # once the run has begun, others may go on without it
    begun_by: bytes = b""  # text in a line of its output: the run has begun
    over_by: bytes = b""  # likewise: the run has ended well
    losses_in: Callable = lambda line: ()  # the Losses that a line of its output reports
    ranks: frozenset = frozenset()  # that it begins with
    ends_with_run: bool = False  # it has nothing left to do when the run has ended well
    # Takes a line; returns the name before it, "" for the member's, and the rest.
    label_of: Callable = lambda line: (b"", line)


class Running:
    """A started member: its output, and the times at which it must end."""

    def __init__(self, member, terminal, on_line):
        self.name, self.serves, self._linger = member.name, member.serves, member.linger
        self.dispensable, self.ends_with_run = member.dispensable, member.ends_with_run
        self.ranks, self.losses_in = member.ranks, member.losses_in
        self.loss = None  # its Loss, after the coordinator says that the others go on without it
        self.says_begun = self.says_over = False
        self._begun_by, self._over_by = member.begun_by, member.over_by
        self._terminal, self._on_line = terminal, on_line
        self._label_of = member.label_of
        self._has_bar = member.has_bar
        self._out = LineSplitter(lambda line: self._print(OUT, line))
        self._err = LineSplitter(lambda line: self._print(ERR, line),
                                 terminal.set_bar if member.has_bar else None)
        self._process = None
        self.was_told_to_end = False
        self._terminate_at = self._kill_at = math.inf

    def start(self, command, processes, on_end):
        def end():
            self._out.flush()
            self._err.flush()
            self.remove_bar()
            on_end(self)
        self._process = processes.add(command, self._out.feed, self._err.feed, end)

    def remove_bar(self):
        """The others may go on for hours, and no other member draws a bar."""
        if self._has_bar:
            self._terminal.set_bar(b"")

    def _print(self, stream, line):
        label, line = self._label_of(line)
        self._terminal.print_line(stream, b"[%s] %s" % (label or self.name.encode(), line))
        self.says_begun = self.says_begun or bool(self._begun_by) and self._begun_by in line
        self.says_over = self.says_over or bool(self._over_by) and self._over_by in line
        self._on_line(self, line)

    @property
    def who(self):
        """Names the member with its process and host, for people."""
        return f"{self.name} ({self._process.place})"

    @property
    def ended(self):
        return self._process.ended

    @property
    def works(self):
        return not self.serves and not self.ended

    @property
    def failed(self):
        """Whether it ended by itself, and not well."""
        return self._process.failed and not self.was_told_to_end

    @property
    def was_killed(self):
        """Whether a signal ended it, even if it turned that into an exit code."""
        return self.status < 0 or self.status in BY_SIGNAL

    @property
    def status(self):
        return self._process.status

    @property
    def end(self):
        return self._process.end

    def signal(self, number):
        """Sends a signal, after which its end is expected."""
        if not self._process.ended:
            self.was_told_to_end = True
            self._process.signal(number)

    def ask_for_checkpoint(self):
        """Tells a coordinator whose run has begun to make a checkpoint."""
        if self.serves and self.says_begun and not self._process.ended:
            self._process.signal(signal.SIGUSR1)

    def end_after(self, until_terminate, until_kill):
        """Schedules SIGTERM and SIGKILL after these seconds; an earlier SIGKILL stays."""
        now = time.monotonic() + self._linger
        self._terminate_at = now + until_terminate
        self._kill_at = min(self._kill_at, now + until_kill)

    def stop(self, number):
        """Sends a signal, and SIGKILL soon after, even if it lingers."""
        self.signal(number)
        self._terminate_at = math.inf
        self._kill_at = min(self._kill_at, time.monotonic() + SECONDS_TO_STOP)

    @property
    def next_signal(self):
        """Returns when send_due must be called."""
        return math.inf if self._process.ended else min(self._terminate_at, self._kill_at)

    def send_due(self):
        now = time.monotonic()
        if now >= self._terminate_at:
            self.signal(signal.SIGTERM)
            self._terminate_at = math.inf
        if now >= self._kill_at:
            self.signal(signal.SIGKILL)
            self._kill_at = math.inf


class Supervisor(ProcessSet):
    """Runs members together, in the calling thread:

      running ──all workers ended with 0──► winding up: 2 s, SIGTERM, 2 s, SIGKILL
         ├───the coordinator says that───► finishing: lost workers that still exist get SIGTERM
         │   all ranks finished             after 0.3 s, others after 10 s; SIGKILL 1.7 s later
         ├─────a member ended otherwise───► failed: 0.3 s for the others to say why,
         │                                   SIGTERM, SIGKILL at 2 s
         │                                   (one that was killed meanwhile is the cause)
         └─────SIGINT, SIGTERM, SIGHUP────► stopped: passed on (SIGHUP as SIGTERM),
                                             SIGKILL at 1.8 s or at the next signal

    SIGUSR1 goes to the coordinator, for a checkpoint. SIGHUP has no effect under nohup.

    A dispensable worker that is lost during the run has not failed: the coordinator decides whether
    the run goes on. If it does not, the lost worker is the cause, unless the coordinator was killed
    or said earlier that the others go on without the worker.

    A lost worker may still exist: one that was stopped (SIGSTOP) ends only by SIGKILL.

    A member that lingers has that much longer to wind up, or after a failure. A signal ends the
    lingering. If a signal comes during winding up, the run has ended well all the same.
    """

    def __init__(self, terminal, signals):
        super().__init__()
        self.signalled = 0  # the signal that came during wait_for()
        self.cause = ""  # which member ended the run, and how; "" if all is well
        self._exit_code = 0
        self._may_change_cause = False  # it may be a consequence of another member's end
        self.lost = []  # ended members without which the others may have gone on, in order
        self.late = []  # workers that were not lost and had to be ended after the run
        self._terminal = terminal
        self._signals = signals
        self._members = []
        self._all_started = False  # in run(): no further member will start
        self._stopped = False  # a signal has come
        self._over = False  # the coordinator says that the run has ended well
        self._winding_up = False  # all workers ended with 0
        self.wake_on(signals.fd)

    def start(self, member):
        """Starts a member. Failure if it cannot be started."""
        running = Running(member, self._terminal, self._on_line)
        running.start(member.command, self, self._on_end)
        self._members.append(running)

    def run_until(self, ready, seconds):
        """Passes output on until ready(), asked every 10 ms. Returns False if a member has failed, a
        signal has come, no member runs any more, or the time is over."""
        deadline = time.monotonic() + seconds
        while not ready():
            now = time.monotonic()
            if self.cause or not self.running() or now >= deadline:
                return False
            self._handle_events(min(deadline, now + SECONDS_TO_LOOK))
        return not self.cause

    def wait_for(self, ready, seconds):
        """Waits, for programs that are no members, until ready(), asked after each event, until a
        signal comes or the time is over. Returns ready()."""
        deadline = time.monotonic() + seconds
        while not ready():
            left = deadline - time.monotonic()
            for number in self._signals.take():
                if number != signal.SIGUSR1:
                    self.signalled = self.signalled or number
            if left <= 0 or self.signalled:
                break
            self.wait(min(left, SECONDS_TO_LOOK_AGAIN))
        return ready()

    def fail(self, exit_code, cause):
        """Ends all members as if one had failed with that code for this cause."""
        if self.cause:
            return
        self.cause, self._exit_code = cause, exit_code
        for member in self._members:
            member.end_after(SECONDS_TO_SAY_WHY, SECONDS_TO_FAIL)

    def run(self):
        """Runs until all members have ended. Must be called once, after all have started. Returns 0
        if all is well; else the exit code of the member that failed first, or that a signal ended soon
        after; or 128 + the signal that came."""
        self._all_started = True
        self._wind_up()  # in case all workers have ended already
        while self.running():
            self._handle_events(math.inf)
        return self._exit_code

    def _handle_events(self, until):
        until = min([until, *(member.next_signal for member in self._members)])
        self.wait(None if until == math.inf else max(0, until - time.monotonic()))
        for member in self._members:
            member.send_due()
        for number in self._signals.take():
            self._take_signal(number)
        if self._terminal.broken and not self.cause:
            self._stop_by_signal(signal.SIGPIPE)

    def _on_line(self, member, line):
        for loss in member.losses_in(line):
            self._note_loss(loss)
        if member.says_over and not self._over:
            self._over = True
            self._end_what_is_left()
            self._blame_who_was_never_lost()

    def _note_loss(self, loss):
        """Notes a loss, whose ranks include those that the worker took over earlier."""
        for member in self._members:
            if not member.ranks or member.loss or not member.ranks <= loss.ranks:
                continue
            if not loss.ends_run:
                member.loss = loss
                member.remove_bar()
            elif not member.ended:
                self._set_cause(EXIT_FAILED, f"{member.who} was lost: {loss.cause}")

    def _end_what_is_left(self):
        for member in self._members:
            if member.loss or member.ends_with_run:
                wait = SECONDS_TO_SAY_WHY if member.loss else SECONDS_TO_FINISH
                member.end_after(wait, wait + SECONDS_TO_FAIL - SECONDS_TO_SAY_WHY)

    def _on_end(self, member):
        was_lost = member.loss is not None or member.failed and self._may_go_on_without(member)
        if member.status != 0 and not self.cause and was_lost:
            self.lost.append(member)
        elif member.failed:
            self._blame(self._culprit(member))
        elif self._over and member.ends_with_run and member.status != 0 and not self.cause:
            self.late.append(member)
        self._wind_up()

    def _blame_who_was_never_lost(self):
        """A worker may fail as soon as it has finished, because it could not write a log: its end
        comes before that of the run, but the coordinator has not lost it."""
        for member in self._pending_losses():
            if member.status == EXIT_FAILED:
                self._blame(member)

    def _blame(self, member):
        """Makes the member the cause of the run's end."""
        if member.was_killed or not self.cause:
            self._set_cause(exit_code_of(member.status), f"{member.who} {member.end}",
                            final=member.was_killed)

    def _set_cause(self, exit_code, cause, final=False):
        """Sets the cause. Other members may fail before a killed member's end, the cause, is
        seen."""
        if self._may_change_cause:
            self.cause = ""
        if not self.cause:
            self._may_change_cause = not final
        self.fail(exit_code, cause)

    def _culprit(self, member):
        """Returns the member that made `member` fail, which may be itself."""
        if member.serves and member.was_killed:
            return member
        pending = self._pending_losses()
        killed = [lost for lost in pending if lost.was_killed]
        return next(iter([*killed, *pending]), member)

    def _pending_losses(self):
        """Returns lost members of which the coordinator has not said that the others go on."""
        return [lost for lost in self.lost if lost.loss is None]

    def _may_go_on_without(self, member):
        """Whether the others may go on without it, even if the coordinator has not said so yet. They
        cannot go on without a member that has a wrong option."""
        begun = any(other.says_begun and not other.says_over for other in self._members)
        was_lost = member.status < 0 or exit_code_of(member.status) in (
            EXIT_FAILED, EXIT_TRY_AGAIN, *BY_SIGNAL)
        return begun and member.dispensable and was_lost

    def _take_signal(self, number):
        if number != signal.SIGUSR1:
            self._stop_by_signal(number)
            return
        for member in self._members:
            member.ask_for_checkpoint()

    def _stop_by_signal(self, number):
        again, self._stopped = self._stopped, True
        if not again and not self.cause and (not self._winding_up or number == signal.SIGPIPE):
            self.cause = f"stopped by signal {int(number)} ({signal.strsignal(number)})"
            self._exit_code = 128 + number
        passed_on = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
        for member in self._members:
            member.stop(signal.SIGKILL if again else passed_on)

    def _wind_up(self):
        working = any(member.works for member in self._members)
        if working or not self._all_started or self.cause or self._winding_up:
            return
        if self.lost and all(member in self.lost or member.serves for member in self._members):
            self._fail_without_workers()
            return
        self._winding_up = True
        for member in self._members:
            member.end_after(SECONDS_TO_WIND_UP, 2 * SECONDS_TO_WIND_UP)

    def _fail_without_workers(self):
        """Fails because all workers were lost; all at once, if they lost the coordinator."""
        pending = self._pending_losses()
        silent = [member for member in self._members if member.serves and not member.ended]
        if silent and pending and all(lost.status == EXIT_TRY_AGAIN for lost in pending):
            self._set_cause(EXIT_TRY_AGAIN, f"{silent[0].who} did not answer its workers any more")
        else:
            self._blame(self._culprit(self.lost[-1]))
