"""Runs the same program on all hosts at once, and collects the answers."""
import json
import pathlib
import time

from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.process import Command, last_lines, text_of

PROBE = pathlib.Path(__file__).with_name("probe.py")


def python_there(script, *arguments):
    """Returns the command that runs a script of ours on a host that does not have it."""
    text = pathlib.Path(script).read_text(encoding="utf-8")
    return ["python3", "-I", "-S", "-c", text, *arguments]


class Asked:
    """A program on one host whose output is wanted."""

    def __init__(self, processes, link, argv):
        self._link = link
        self.process = processes.add(Command(argv, {}, link=link))

    @property
    def problem(self):
        """Returns why there is no answer; "" if there is one, or may still be."""
        if self._link.lost:
            return self._link.lost
        if not self.process.failed:
            return ""
        why = "".join(f": {line.strip()}" for line in last_lines(text_of(self.process.err), 1))
        return f"host {self._link.name}: {self.process.end}{why}"


def await_all(asked, wait, seconds):
    """Returns the JSON that each printed. `wait(ready, deadline)` waits on the ProcessSet. Failure
    names the hosts that did not answer, and says why."""
    deadline = time.monotonic() + seconds
    wait(lambda: all(one.process.ended for one in asked), deadline)
    problems = [one.problem or ("" if one.process.ended else
                                f"host {one._link.name}: no answer within {seconds:g} s")
                for one in asked]
    if any(problems):
        raise Failure("\n".join(filter(None, problems)), EXIT_USAGE)
    return [json.loads(text_of(one.process.out)) for one in asked]


def ask_all(processes, links, questions, wait, seconds):
    """Returns what probe.py finds on each host; `questions` for each host, or one for all."""
    each = questions if isinstance(questions, list) else [questions] * len(links)
    asked = [Asked(processes, link, python_there(PROBE, json.dumps(question)))
             for link, question in zip(links, each)]
    return await_all(asked, wait, seconds)
