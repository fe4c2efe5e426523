"""The phases of an iteration, as common/telemetry/phases.inc lists them."""

import json
import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def read_phases():
    """As /status.json gives them: name, title, label, about, is_part, colour of each."""
    text = (SOURCE / "common/telemetry/phases.inc").read_text()
    phases = []
    for line in re.findall(r"^GRADWIRE_PHASE\(\w+,([^()]*)\)$", text, re.MULTILINE):
        values = json.loads(f"[{line}]")
        keys = ("name", "title", "label", "about", "is_part", "colour")
        phases.append(dict(zip(keys, values, strict=True)))
    assert len(phases) == text.count("\nGRADWIRE_PHASE("), "a line that is of another form"
    return phases


PHASES = read_phases()
PARTS = [phase["name"] for phase in PHASES if phase["is_part"]]
