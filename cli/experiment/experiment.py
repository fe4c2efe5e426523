#!/usr/bin/python3
"""`gradwire experiment`, once its options are read.

    experiment.py JSON    JSON: see cli/experiment/experiment_command.h

Does the runs that --out does not have yet, and writes the report there.
"""
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.experiment import (collectives, course, data_parallel, ddp_paper, disturbance, emulation,
                            inference, lab, large_batch, time_to_accuracy)
from cli.experiment.conduct import announce, conduct, plan_of, say
from cli.experiment.data_folder import check_data_folder
from cli.experiment.folder import REPORT, Folder
from cli.experiment.results import result_of
from cli.experiment.statements import listed
from cli.experiment.study import (EndedRuns, Findings, Setting, experiment_called, report_part,
                                  sizes_with, tabulate)
from cli.experiment.work import SAMPLES
from cli.hosts.probe import machine
from cli.report.document import drawing_module
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.machine import describe_environment
from cli.runs.made_hosts import MADE, check_made
from cli.runs.report import print_all
from cli.runs.runner import Runner, torch_version
from cli.runs.training import warn_of_slow_blas
from cli.terminal.command import WrongUsage, did_you_mean, drive

PROGRAM = "gradwire experiment"
LIST, CLAIMS = "list", "claims"
FULL_SCALE = "full"
REHEARSAL = ("REHEARSAL: scale {} is smaller than what the source asks for. The report to hand in is that of "
             f"--scale {FULL_SCALE}.")
EMULATED_HEAD = ("COMPUTATION IS EMULATED: in the runs of several ranks that give the times, each rank sleeps "
                 "in place of computing (see the notes).")
# In the order of `gradwire experiment list`.
EXPERIMENTS = [module.EXPERIMENT for module in (
    course, collectives, lab, large_batch, ddp_paper, data_parallel, inference, time_to_accuracy)]
# The tables (cli/experiment/tables_json.h) in which options of runs look names up.
NAMED_BY = {"--model": "models", "--dataset": "datasets", "--sync": "syncs",
            "--backend": "backends", "--wire": "wires", "--compress": "compressions",
            "--op": "operations"}


def with_hosts(experiment, request):
    """Returns the request with the number of hosts. No hosts are made for one process, which needs no
    network."""
    workers = experiment.hosts(request)
    made_for_nothing = workers == 1 and request["hosts"] in MADE
    return {**request, "workers": workers,
            **({"hosts": "", "link_gbit": None} if made_for_nothing else {})}


def check(experiment, request):
    """Failure if the options do not fit the experiment or each other."""
    for name in ("link", "target", "weights", "pretrain", "peers"):
        if request[name] and name not in experiment.options:
            takers = ", ".join(one.name for one in EXPERIMENTS if name in one.options)
            raise Failure(f"--{name}: got experiment {experiment.name}, expected {takers}",
                          EXIT_USAGE)
    check_chosen(experiment, request["chosen"])
    others = request["hostfile"] or request["hosts"] not in ("", *MADE)
    if request["peers"] and others and not request["threads"]:
        raise Failure("--peers on hosts needs --threads, the same for all ranks", EXIT_USAGE)


def check_chosen(experiment, chosen):
    """Failure if an option of training was given that the experiment's source fixes."""
    for name, value in chosen.items():
        if name not in experiment.leaves_open:
            takers = ", ".join(one.name for one in EXPERIMENTS if name in one.leaves_open)
            raise Failure(f"--{name}: got '{value}' for experiment {experiment.name}, whose source "
                          f"fixes it; expected one of {takers}", EXIT_USAGE)


    if "dataset" in chosen and chosen["dataset"] not in SAMPLES:
        raise Failure(f"--dataset: got '{chosen['dataset']}', expected one of a known size: "
                      f"{', '.join(SAMPLES)}", EXIT_USAGE)


def chosen_note(chosen):
    return (f"Chosen by options, because the source leaves them open: "
            f"{', '.join(f'--{name} {value}' for name, value in chosen.items())}.")


def check_names(steps, tables):
    """Failure if a run names a strategy that is not in the program's tables."""
    for step in steps:
        words = step.run.ranks[0]
        for option, value in zip(words, words[1:]):
            name = value.partition(":")[0]
            names = list(tables[NAMED_BY[option]]) if option in NAMED_BY else [name]
            if name not in names:
                raise Failure(f"run {step.work.name}: {option}: got '{value}', expected one of "
                              f"{', '.join(names)}{did_you_mean(name, names)}")


def check_data(experiment, steps, setting):
    """Failure if --data-dir holds another data set. On other hosts gradwire-layout checks it."""
    folder = setting.request["data_dir"]
    if not folder or setting.hosts_are_elsewhere:
        return
    without = dataclasses.replace(setting, request={**setting.request, "data_dir": ""})
    others = {work.name: work.layout(without) for work in experiment.runs(without)}
    for step in steps:
        options = step.work.layout(setting)
        if not step.record and "--data-dir" in options:
            check_data_folder(folder, options, others.get(step.work.name))


def find(experiment, setting, works, steps):
    """Returns the findings of the steps that have ended. Emulated runs give their times to those with
    real computation."""
    missing = {step.work.name for step in steps if not step.record}
    ranks = {step.work.name: step.record["ranks"] for step in steps
             if step.record and not step.lacks_memory}
    if setting.emulates:
        ranks = emulation.merged(works, ranks)
    coordinators = {step.work.name: step.record.get("coordinator")
                    for step in steps if step.record}
    results = {
        work.name: result_of(work, ranks[work.name], coordinators.get(times_name(setting, work)))
        for work in works if work.name in ranks}
    if missing:
        results = EndedRuns(results, (work.name for work in works
                                      if {work.name, times_name(setting, work)} & missing))
    signs = experiment.signs(setting, works, results)
    machines = disturbance.machines_of(step.record["environment"] for step in steps if step.record)
    setting = dataclasses.replace(setting, disturbed=disturbance.reason_of(signs, machines))
    findings = report_part(experiment.find)(setting, results) or Findings([], [], [])
    notice = disturbance.notice_of(signs, machines)
    findings = dataclasses.replace(findings, head=head_of(setting, notice))
    if missing:
        findings = findings.without_gaps(experiment.statements)
        findings.shown.insert(0, ended_table(steps))
    if setting.request["chosen"]:
        findings.notes.insert(0, chosen_note(setting.request["chosen"]))
    if setting.emulated:
        findings.notes.insert(0, emulation.note(setting))
    return findings


def head_of(setting, notice):
    """Returns what a reader must know first: sentences, the most important ones first. `notice`: why
    times do not count, or ""."""
    return (*([notice] if notice else []),
            *([REHEARSAL.format(setting.request["scale"])] if setting.request["scale"] != FULL_SCALE
              else []),
            *([EMULATED_HEAD] if setting.emulated else []))


def times_name(setting, work):
    """Returns the name of the run that gives the times of `work`."""
    emulated = setting.emulates and emulation.is_timed(work)
    return emulation.timed_name(work) if emulated else work.name


def ended_table(steps):
    """Returns a table of the steps that have ended."""
    return tabulate("ended", "Runs that have ended", "this command", [
        step for step in steps if step.record], [
            ("name", "run", lambda step: step.work.name),
            ("title", "what it is", lambda step: step.work.title),
            ("seconds", "it took (s)", lambda step: step.record["seconds"], 1)])


def emulate(works, setting, folder, check_signals):
    """Measures how long computation takes. Returns the setting with it, and the measuring steps.
    Failure as of run_steps."""
    steps = plan_of(emulation.alones_of(works, setting), setting, folder)
    if not all(step.record for step in steps):
        say("Computation will be emulated, because this machine has fewer cores than the hosts. "
            "First one rank alone is timed.")
        announce(steps, folder)
        run_steps(steps, setting, folder, check_signals)
    seconds = {step.work.name: emulation.seconds_of(result_of(step.work, step.record["ranks"]))
               for step in steps if not step.lacks_memory}
    return dataclasses.replace(setting, emulated=seconds), steps


def run_steps(steps, setting, folder, check_signals):
    """Does the steps without a record. Failure first if a host, its programs or data are missing."""
    layouts = dict.fromkeys(tuple(step.work.layout(setting)) for step in steps if not step.record)
    with Runner(setting.request, check_signals) as runner:
        torch = torch_version(runner) if setting.peers else None
        for options in layouts:
            runner.try_out([setting.request["programs"]["layout"], *options])
        folder.forget_report()
        for step in steps:
            if not step.record:  # with --again, that of an earlier command
                folder.forget(step.work.name)
        conduct(steps, setting, folder, runner, describe_environment(setting.request, torch))


def free_memory(left):
    """Returns bytes. `left`: those that a container leaves; None: it sets no limit."""
    free = machine()["memory"]
    return free if left is None else min(free, left)


def run_experiment(experiment, request, check_signals):
    scale = experiment.scale(request["scale"])
    check(experiment, request)
    writing = drawing_module("cli.experiment.writing")
    out = request["out"] or f"gradwire-{experiment.name}-{request['scale']}"
    request = {**with_hosts(experiment, request), "out": out}
    setting = Setting(request, sizes_with(scale, request["chosen"]), request["cores"],
                      free_memory(request["memory_left"]))
    folder = Folder(out, experiment.name, request["scale"])
    with folder.used_alone():
        run_in(folder, experiment, setting, writing, check_signals)


def run_in(folder, experiment, setting, writing, check_signals):
    """Does the runs that the folder does not have, and writes the report there. `writing`: the
    module."""
    request, about = setting.request, experiment.scale(setting.request["scale"])["about"]
    works = experiment.runs(setting)
    steps = plan_of(works, setting, folder)
    check_names(steps, request["tables"])
    check_data(experiment, steps, setting)
    say(f"{experiment.title}, scale {request['scale']}: {about}")
    warn_of_slow_blas(request)
    for sentence in experiment.announce(setting):
        say(sentence)
    alone, planned = [], works
    if setting.emulates:
        setting, alone = emulate(works, setting, folder, check_signals)
        planned = emulation.split(works, setting)
    steps = plan_of(planned, setting, folder)
    announce(steps, folder)

    def write(why=""):
        """Writes the report of the steps that have ended, and returns the findings. `why`: the reason
        if not all have."""
        ended = [step for step in steps if step.record]
        findings = find(experiment, setting, works, alone + steps)
        report = writing.Writing(
            experiment, request["scale"], request["command"], ended[-1].record["environment"],
            findings, alone + steps, [step for step in steps if not step.record], why)
        writing.write(folder, report.files())
        return findings

    def write_early(failure):
        """Writes the report after `failure`, which is what the command ends with, even if the report
        cannot be written."""
        say("ends early; writes the report of the runs that have ended")
        try:
            write(str(failure))
        except Failure as unwritten:
            say(f"there is no report: {unwritten}")
            return
        without = " without --again" if request["again"] else ""
        say(f"{folder.path}/{REPORT} is incomplete; the same command{without} continues")
    if not all(step.record for step in steps):
        try:
            run_steps(steps, setting, folder, check_signals)
        except Failure as failure:
            # A report that is still there is of runs that this command has not begun to repeat.
            if any(step.record for step in steps) and not (folder.path / REPORT).exists():
                write_early(failure)
            raise
    for claim in write().claims:
        say(f"{claim.said}: {claim.text} ({claim.numbers})")
    print_all(f"{folder.path}/report.html\n")


def print_list():
    print_all("".join(f"{one.name:<17} {one.title}; after {one.source}\n" for one in EXPERIMENTS))


def print_claims(names, as_json):
    """Prints the statements of the experiments called `names`, or of all."""
    chosen = [experiment_called(name, EXPERIMENTS) for name in names] or EXPERIMENTS
    print_all(listed(chosen, as_json))


def main_with(request, check_signals):
    words = request["words"]
    if words[:1] == [CLAIMS]:
        return print_claims(words[1:], request["json"])
    if request["json"]:
        raise WrongUsage(f"--json is for '{CLAIMS}', got {' '.join(words) or 'no name'}")
    if len(words) != 1:
        names = ", ".join([*(one.name for one in EXPERIMENTS), LIST, CLAIMS])
        raise WrongUsage(f"got {len(words)} names, expected one of {names}")
    if words[0] == LIST:
        return print_list()
    experiment = experiment_called(words[0], EXPERIMENTS)
    check_made(with_hosts(experiment, request))
    return run_experiment(experiment, request, check_signals)


if __name__ == "__main__":
    sys.exit(drive(PROGRAM, main_with))
