"""Every command of README.md and docs/ is run as it is printed, at small sizes, or is marked with
the reason why not (command_table.py); then its options are parsed. Blocks of one page are run in
one shell and one scratch folder, in the page's order. command_blocks.py says what a command is."""
import collections
import concurrent.futures
import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import command_table as table
from command_blocks import (OURS, SHELL, SOURCE, command_blocks, first_words, invocations, program,
                            raw_blocks)

sys.path.insert(0, str(SOURCE / "tests/support"))
from cifar_files import write_cifar10  # noqa: E402

BIN = pathlib.Path(os.environ.get("GRADWIRE_BIN_DIR", SOURCE / "build/bin")).resolve()
OUTSIDE = re.compile(r"(?:^|[\s\"'=:>])(?:~/|\$HOME|/(?:etc|home|opt|proj|shared|srv|var)/)")
OPTION = re.compile(r"--[a-z][\w-]*")
NOT_AN_OPTION = "--parse-only"
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name != "GRADWIRE_BIN_DIR"},
               "BIN_DIR": str(BIN), "PATH": f"{BIN}:{os.environ['PATH']}"}
SECONDS = 300  # of a page
used = set()  # rows of the table


def text_of(command):
    return " ".join(command.split())


def reason(page, command):
    """Why a command is not run; None if it is."""
    for row, why in table.LINES.items():
        if row[0] == page and text_of(command).startswith(row[1]):
            used.add(row)
            return why
    if re.search(r"--hosts (?:auto|podman)\b", command):
        return table.HOSTS
    for word in first_words(command):
        if why := table.PROGRAMS.get(program(word)):
            used.add(program(word))
            return why
    if re.search(r"(?:^|\s)(?:…|\.\.\.)(?:\s|$)", command):
        return table.PART
    return table.ROOT if OUTSIDE.search(command) and not command.startswith("export ") else None


def known_program(command):
    """Whether a command may be run: an assignment, a word of SHELL, a program of ours."""
    words = first_words(command)
    return not words or program(words[0]) in OURS | SHELL or \
        words[0].startswith(("build/bin/", "deploy/", "bench/", "tests/"))


def substituted(text, patterns, row=None):
    for number, (pattern, replacement) in enumerate(patterns):
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        if count and row:
            used.add((row, number))
    return text


def script_of(block, commands, host):
    """The text that is run for the commands of a block."""
    text = "\n".join(re.sub(r"  +", " ", line) if "<<" not in line else line for line in commands)
    for (page, pattern), right in table.KNOWN.items():
        if page == block.page:
            text, count = re.subn(pattern, right, text)
            used.update({(page, pattern)} if count else set())
    text = substituted(text, table.EVERYWHERE)
    for row, patterns in table.CHANGES.items():
        if row[0] == block.page and any(text_of(line).startswith(row[1]) for line in block.lines):
            text = substituted(text, patterns, row)
    return text.replace("@HOST@", host)


def scratch_checkout(folder):
    """What commands find beside them: the checkout's folders, build/ with the programs, data and a
    program of one's own."""
    for name in ("bench", "deploy", "docs", "examples", "tests"):
        (folder / name).symlink_to(SOURCE / name)
    (folder / "build").mkdir()
    for name in ("bin", "libexec"):
        (folder / "build" / name).symlink_to(BIN.parent / name)
    write_cifar10(folder / "cifar10", trained=600, tested=120)
    (folder / "train").write_text("#!/bin/sh\n")
    (folder / "train").chmod(0o755)


def run_page(page, scripts, host):
    """Runs (block, script) in one shell. Returns the error, if any, and all output."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        scratch_checkout(folder)
        text = table.PRELUDE + "".join(f"echo '##### {block.where}'\n{script}\n"
                                       for block, script in scripts) + "all\n"
        with open(folder / "output.log", "w+", encoding="utf-8", errors="replace") as log:
            shell = subprocess.Popen(["bash", "-c", text], cwd=folder, stdout=log, text=True,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     start_new_session=True,
                                     env={**ENVIRONMENT, **table.SMALL, "HOME": scratch})
            try:
                code = shell.wait(SECONDS)
            except subprocess.TimeoutExpired:
                code = f"none within {SECONDS} s"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
            log.seek(0)
            output = log.read()
    if code == 0:
        return None, output
    where = re.findall(r"^##### (.*)$", output, re.MULTILINE)
    script = next((script for block, script in scripts if where and block.where == where[-1]), text)
    tail = "\n".join(output.rsplit("\n##### ", 1)[-1].split("\n")[-12:])
    return f"{where[-1] if where else page}: exit code {code} of\n{script}\n{tail}", output


def shape_of(line):
    """Whether a line of output begins as this one does: its words up to the first number, or to the
    list that a number may stand in."""
    words = re.split(r"[\d:]", line.strip())[0].split()
    return re.compile(r"^\s*" + r"\s+".join(map(re.escape, words)), re.MULTILINE)


def begins(lines):
    """Lines of output that are no continuation of a wrapped sentence, and that begin with words."""
    for before, line in zip(["", *lines], lines):
        wrapped = len(before) > 80 and not re.search(r"\w {2,}\w", before)
        if not wrapped and re.match(r"\s*[A-Za-z]", line):
            yield line


@functools.cache
def help_of(*command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, cwd=SOURCE,
                          stdin=subprocess.DEVNULL).stdout


def parse_error(name, arguments):
    """What is wrong with the options of one of our programs, or None."""
    def refused(*command, expected):
        """The message, unless it is the `expected` one."""
        done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL)
        message = (done.stderr.strip() or "nothing").split("\n")[0]
        right = done.returncode == 0 if expected is None else f"option {expected}" in message
        return None if right else message

    def worker(options):
        if "--host-coordinator" in options and "--num-nodes" not in options:
            options = [*options, "--rank", "0", "--world-size", "4"]  # as a launcher says
        return refused("gradwire", "env", *options, expected=None)

    if name == "gradwire-worker" or name.endswith("gradwire.sbatch"):
        return worker(arguments)
    if name == "gradwire-coordinator":
        return refused(name, *arguments, NOT_AN_OPTION, expected=NOT_AN_OPTION)
    if name != "gradwire":
        if not os.access(SOURCE / name, os.X_OK):
            return None
        known = OPTION.findall(help_of(SOURCE / name))
        wrong = [word for word in arguments if OPTION.fullmatch(word) and word not in known]
        return f"no option {', '.join(wrong)}" if wrong else None
    if "--" in arguments:
        at = arguments.index("--")
        own, rest = arguments[:at], arguments[at + 1:]
        return refused(name, *own, NOT_AN_OPTION, expected=NOT_AN_OPTION) or \
            ("--program" not in own and worker(rest) or None)
    if arguments[:1] == ["env"]:
        return worker(arguments[1:])
    if arguments[:1] == ["--version"]:
        return None
    return refused(name, *arguments, NOT_AN_OPTION, expected=NOT_AN_OPTION)


class CommandsTest(unittest.TestCase):
    longMessage = False

    @classmethod
    def setUpClass(cls):
        cls.blocks, cls.unknown = command_blocks()
        cls.pages, cls.marked, cls.ran, seen = collections.defaultdict(list), [], set(), {}
        for block in cls.blocks:
            host = f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}.{len(cls.pages) + 1}"
            if block.page in cls.pages:
                host = cls.pages[block.page][0]
            run = []
            for command in block.lines:
                why = reason(block.page, command)
                if why:
                    cls.marked.append((block, command, why))
                elif known_program(command):
                    run.append(command)
                else:
                    cls.unknown.append(f"{block.where}: neither run nor marked: {command}")
            if not run:
                continue
            cls.ran.add(id(block))
            script = script_of(block, run, host)
            if seen.setdefault(script, block) is block:
                if not cls.pages[block.page]:
                    cls.pages[block.page] = [host, []]
                cls.pages[block.page][1].append((block, script))

    def test_every_block_is_run_or_marked(self):
        self.assertFalse(self.unknown, "\n".join(self.unknown))

    def test_commands_that_are_run(self):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            jobs = {page: pool.submit(run_page, page, scripts, host)
                    for page, (host, scripts) in sorted(
                        self.pages.items(), key=lambda item: -len(item[1][1]))}
        wrong = [job.result()[0] for job in jobs.values() if job.result()[0]]
        for page, start in table.EXPECTED:
            found = [text for _, language, text in raw_blocks((SOURCE / page).read_text())
                     if language in (None, "") and text_of(text).startswith(text_of(start))]
            if not found:
                wrong.append(f"{page}: no output block begins with {start}: the row is stale")
            output = re.sub(r"^\[[^]]*\] ", "", jobs[page].result()[1], flags=re.MULTILINE)
            wrong += [f"{page}: no line of output begins as this one: {line}"
                      for text in found for line in begins(text.split("\n"))
                      if not shape_of(line).search(output)]
        self.assertFalse(wrong, "\n\n".join(wrong))
        whole = {id(block): why for block, _, why in reversed(self.marked)
                 if id(block) not in self.ran}
        counts = collections.Counter(whole.values())
        print(f"{len(self.ran)} blocks run, {len(whole)} marked: "
              + ", ".join(f"{count} {why}" for why, count in counts.most_common())
              + f"; {len(self.marked)} commands marked in all")

    def test_options_of_marked_commands(self):
        wrong = []
        for block, command, why in self.marked:
            for name, arguments in () if why in table.CHANGED else invocations(command):
                if error := parse_error(name, arguments):
                    wrong.append(f"{block.where}: {text_of(command)}: {error}")
        self.assertFalse(wrong, "\n".join(wrong))

    def test_rows_of_the_table_fit_something(self):
        rows = {*table.LINES, *table.PROGRAMS, *table.KNOWN,
                *((row, number) for row, changes in table.CHANGES.items()
                  for number in range(len(changes)))}
        commands = "\n".join(line for block in self.blocks for line in block.lines)
        stale = [pattern for pattern, _ in table.EVERYWHERE
                 if not re.search(pattern, commands, re.MULTILINE)]
        stale += sorted(map(str, rows - used))
        self.assertFalse(stale, "no block fits these rows:\n" + "\n".join(stale))


if __name__ == "__main__":
    unittest.main()
