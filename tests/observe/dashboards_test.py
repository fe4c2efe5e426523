"""The dashboards as files: complete, of the form that Grafana reads, and units that fit."""

import itertools
import json
import re
import unittest

from support import DASHBOARDS, SOURCE, panels
from phases import PARTS, PHASES  # on the path since support is

KINDS = {"stat", "timeseries", "heatmap", "table", "barchart", "bargauge"}
METRIC = re.compile(r"\b(?:gradwire_\w+|up|ALERTS)\b(?=[{\[])")

# Shown as they are: how many so far.
GAUGES = {"gradwire_lost_workers_total", "gradwire_recoveries_total",
          "gradwire_recovered_ranks_total", "gradwire_lost_seconds_total",
          "gradwire_recovery_seconds_total"}

# What an expression of a unit is made of: the metrics of the numerator, and whether a
# rate or a division by something of the same kind stands behind it.
SECONDS = r"gradwire_(iteration|phase|rank_lag|ledger_fsync)_seconds"
FORM = {
    "s": rf"{SECONDS}_sum.* / .*(gradwire_\w+_count|{SECONDS}_count)|"
         rf"histogram_quantile\(.*{SECONDS}_bucket|increase\({SECONDS}_bucket"
         r"|gradwire_(lost|recovery)_seconds_total|gradwire_checkpoint_seconds\b",
    "percentunit": rf"{SECONDS}_sum.* / .*{SECONDS}_sum|rate\({SECONDS}_sum"
                   r"|gradwire_correct_samples_total.* / .*gradwire_samples_total"
                   r"|gradwire_step.* / .*gradwire_total_steps",
    "Bps": r"rate\(gradwire_bytes_total(?!.*iterations_total)|vector\(\$link / 8\)",
    "bytes": r"gradwire_bytes_total.* / .*gradwire_iterations_total",
    "cps": r"rate\(gradwire_samples_total|increase\(gradwire_samples_total.* / ",
    "ops": r"rate\(gradwire_rpc_errors_total",
    "none": r"gradwire_(step|checkpoint_step|workers|min_workers|lost_workers_total|generation|loss"
            r"|recoveries_total|recovered_ranks_total|ledger_durable"
            r"|rpc_errors_total|wire_overflows_total)\b|\bup\{|\bALERTS\{",
}


def units(panel):
    """(expression, unit) of each target; a table has one for each column."""
    columns = {}
    for override in panel["fieldConfig"]["overrides"]:
        for item in override["properties"]:
            if item["id"] == "unit":
                columns[override["matcher"]["options"]] = item["value"]
    for target in panel["targets"]:
        default = panel["fieldConfig"]["defaults"]["unit"]
        yield target["expr"], columns.get(f"Value #{target['refId']}", default)


def fixed_colours(panel):
    """Colours of series, by their names."""
    return {override["matcher"]["options"]: item["value"]["fixedColor"]
            for override in panel["fieldConfig"]["overrides"]
            for item in override["properties"] if item["id"] == "color"}


def declared_metrics():
    """Names that the programs serve, as their sources declare them."""
    files = ("metrics.h", "metrics.cc", "step_record.h")
    text = "".join((SOURCE / "common/telemetry" / file).read_text() for file in files)
    return set(re.findall(r'"(gradwire_\w+)"', text))


class Dashboards(unittest.TestCase):

    def check_each_panel(self, check):
        for dashboard, panel in panels():
            with self.subTest(dashboard=dashboard["title"], panel=panel["title"]):
                check(panel)

    def test_there_are_the_four_each_with_an_identity_of_its_own(self):
        self.assertEqual([file.stem for file in DASHBOARDS], ["compare", "faults", "ranks", "run"])
        for key in ("uid", "title"):
            values = {json.loads(file.read_text())[key] for file in DASHBOARDS}
            self.assertEqual(len(values), len(DASHBOARDS), key)

    def test_each_has_the_data_source_and_the_run_as_variables(self):
        for file in DASHBOARDS:
            variables = {v["name"]: v for v in json.loads(file.read_text())["templating"]["list"]}
            self.assertEqual(variables["datasource"]["type"], "datasource", file)
            self.assertEqual(variables["run"]["type"], "query", file)
            if file.stem in ("run", "ranks"):
                self.assertTrue(variables["rank"]["includeAll"], file)

    def test_each_panel_is_complete(self):
        def check(panel):
            self.assertIn(panel["type"], KINDS)
            self.assertTrue(panel["title"] and panel["description"].endswith("."))
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            self.assertTrue(panel["targets"])
            for target in panel["targets"]:
                self.assertEqual(target["datasource"]["uid"], "${datasource}")
            self.assertEqual(len({t["refId"] for t in panel["targets"]}), len(panel["targets"]))

        self.check_each_panel(check)

    def test_no_two_panels_share_an_id_or_a_place(self):
        for file in DASHBOARDS:
            boxes = [(p["id"], p["gridPos"]) for p in json.loads(file.read_text())["panels"]]
            self.assertEqual(len({number for number, _ in boxes}), len(boxes), file)
            for (_, a), (_, b) in itertools.combinations(boxes, 2):
                apart = (a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"] or
                         a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])
                self.assertTrue(apart, f"{file}: {a} {b}")
            self.assertTrue(all(box["x"] + box["w"] <= 24 for _, box in boxes), file)

    def test_metrics_are_declared(self):
        known = declared_metrics() | {"up", "ALERTS"}

        def check(panel):
            for target in panel["targets"]:
                for name in METRIC.findall(target["expr"]):
                    self.assertIn(re.sub(r"_(sum|count|bucket)$", "", name), known)

        self.check_each_panel(check)

    def test_counters_are_only_read_over_a_time(self):
        def check(panel):
            for target in panel["targets"]:
                for match in METRIC.finditer(target["expr"]):
                    if re.search(r"_(total|sum|count|bucket)$", match.group()) and \
                            match.group() not in GAUGES:
                        self.assertRegex(target["expr"][:match.start()],
                                         r"(rate|increase|_over_time)\($")

        self.check_each_panel(check)

    def test_counts_since_a_start_are_called_so(self):
        counts = re.compile(rf"max_over_time\(gradwire_\w+_total|^({'|'.join(GAUGES)})\b")

        def check(panel):
            if panel["type"] != "table" and any(counts.search(target["expr"])
                                                for target in panel["targets"]):
                self.assertRegex(panel["description"], r"\b[Ss]ince\b")

        self.check_each_panel(check)

    def test_steps_of_a_run_are_read_only_if_they_are_known(self):
        def check(panel):
            for target in panel["targets"]:
                for match in re.finditer(r"gradwire_total_steps\{[^}]*\}", target["expr"]):
                    self.assertTrue(target["expr"][match.end():].startswith(" > 0)"))

        self.check_each_panel(check)

    def test_units_fit_the_expressions(self):
        def check(panel):
            for expression, unit in units(panel):
                self.assertRegex(expression, FORM[unit])

        self.check_each_panel(check)

    def test_titles_and_legends_say_what_the_expressions_are(self):
        phases = {phase["name"] for phase in PHASES}
        words = {"Exposed communication": 'phase="exposed_communication"', "Sent ": 'direction="sent"',
                 "Alerts": 'alertstate="firing"', "Firing alerts": 'alertstate="firing"',
                 "90th percentile": "quantile(0.9,", "99th percentile": "quantile(0.99,"}

        def check(panel):
            for target in panel["targets"]:
                legend, expression = target.get("legendFormat", ""), target["expr"]
                if legend in phases:
                    self.assertIn(f'phase="{legend}"', expression)
                for percent in re.findall(r"^p(\d\d)$", legend):
                    self.assertIn(f"histogram_quantile({float('0.' + percent):g},", expression)
                for word, part in words.items():
                    if word in legend or panel["title"].startswith(word) and legend != "link":
                        self.assertIn(part, expression)

        self.check_each_panel(check)

    def test_each_expression_is_of_the_chosen_run(self):
        def check(panel):
            for target in panel["targets"]:
                for selector in re.findall(r"\{([^{}]*)\}", target["expr"]):
                    self.assertRegex(selector, r'run=~?"\$run"')

        self.check_each_panel(check)

    def test_what_is_stacked_adds_up_to_an_iteration(self):
        stacked = {panel["title"]: " ".join(t["expr"] for t in panel["targets"])
                   for _, panel in panels()
                   if "normal" in (panel["options"].get("stacking"),
                                   panel["fieldConfig"]["defaults"].get("custom", {})
                                   .get("stacking", {}).get("mode"))}
        self.assertEqual(set(stacked), {"Iteration time by phase",
                                        "Where the time of an iteration goes, by run"})
        for expressions in stacked.values():
            names = "|".join(phase["name"] for phase in PHASES)
            found = set(re.findall(rf"(?<![a-z_])({names})(?![a-z_])", expressions))
            self.assertEqual(found, set(PARTS))

    def test_phases_have_the_colours_of_the_list(self):
        colours = {phase["name"]: phase["colour"] for phase in PHASES}

        def check(panel):
            expressions = " ".join(target["expr"] for target in panel["targets"])
            selectors = "|".join(re.findall(r'phase=~?"([^"]*)"', expressions))
            named = set(selectors.split("|")) & set(colours)
            fixed = fixed_colours(panel)
            for name in named if len(named) > 1 else ():
                self.assertEqual(fixed.get(name), colours[name], name)

        self.check_each_panel(check)


if __name__ == "__main__":
    unittest.main()
