"""Reads the --help of the programs, which they make from their tables of options."""
import dataclasses
import re
import subprocess

PROGRAMS = ("gradwire", "gradwire-coordinator", "gradwire-worker")

_OPTION = re.compile(r"  (?:-h,)?(--[a-z-]+)(?: (?! )(\S+))?(?: +(.*))?")
_CHOICE = re.compile(r" {36}([a-z0-9_-]+): (.*)")
_USAGE = re.compile(r"^Usage: (.*)\n", re.MULTILINE)


@dataclasses.dataclass
class Option:
    """One option: "--sync", "NAME", its help, and its possible values, if they are listed, each with its
    meaning."""
    name: str
    value: str
    help: str
    choices: list


@dataclasses.dataclass
class Command:
    """A program or one of its commands: ("gradwire", "bench", "training")."""
    words: tuple
    summary: str
    description: str
    usage: str      # "gradwire launch [OPTIONS]"
    commands: list  # of Command
    groups: dict    # title: list of Option
    operand: str    # "FILE", "HOST:PORT"; "" if it takes none
    footer: str

    @property
    def options(self):
        return [option for group in self.groups.values() for option in group]


def _option(line):
    name, value, text = _OPTION.fullmatch(line).groups()
    words = value.split("|") if value and re.fullmatch(r"[a-z]+(\|[a-z]+)+", value) else []
    return Option(name, value or "", text or "", [(word, "") for word in words])


def _group(lines):
    options = []
    for line in lines:
        if _OPTION.fullmatch(line):
            options.append(_option(line))
        elif choice := _CHOICE.fullmatch(line):
            options[-1].choices.append(choice.groups())
        else:
            options[-1].help = f"{options[-1].help} {line.strip()}".strip()
    return options


def _commands(lines, words, folder):
    return [read(folder, (*words, name), summary)
            for name, summary in (line.split(maxsplit=1) for line in lines)]


def read(folder, words, summary=""):
    """Returns the Command `words` of the programs in `folder`. Raises CalledProcessError."""
    text = subprocess.run([folder / words[0], *words[1:], "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    description, usage, rest = _USAGE.split(text, maxsplit=1)
    command = Command(words, summary or " ".join(description.split()), description.strip(), usage,
                      [], {}, "", "")
    footer = []
    for block in re.split(r"\n{2,}", rest.strip("\n")):
        title, *lines = block.splitlines()
        indented = lines and all(line.startswith("  ") for line in lines)
        if indented and title in ("Commands:", "Measurements:"):
            command.commands = _commands(lines, words, folder)
        elif indented and title == "Positionals:":
            command.operand = lines[0].split()[0]
        elif indented and title.endswith(":") and _OPTION.fullmatch(lines[0]):
            command.groups[title.rstrip(":")] = _group(lines)
        else:
            footer.append(block)
    command.footer = "\n\n".join(footer)
    return command


def walk(command):
    """Yields `command` and its sub-commands."""
    yield command
    for below in command.commands:
        yield from walk(below)


def every_command(folder):
    """Returns all Commands of the programs in `folder`."""
    return [command for program in PROGRAMS for command in walk(read(folder, (program,)))]
