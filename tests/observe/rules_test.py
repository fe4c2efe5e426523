"""The files of deploy/prometheus: valid, and each alert raised by what it is for."""

import re
import subprocess
import unittest

from support import DEPLOY, SOURCE

PROMETHEUS = DEPLOY / "prometheus"


def run(*command):
    return subprocess.run([str(word) for word in command], cwd=SOURCE, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


class Rules(unittest.TestCase):

    def assert_ends_well(self, *command):
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_config_of_prometheus_is_valid(self):
        self.assertIn("2 rule files found",
                      self.assert_ends_well("promtool", "check", "config",
                                            PROMETHEUS / "prometheus.yml"))

    def test_rules_hold_what_their_tests_say(self):
        self.assert_ends_well("promtool", "test", "rules", SOURCE / "tests/observe/rules_test.yml")

    def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not(self):
        tests = (SOURCE / "tests/observe/rules_test.yml").read_text()
        for alert in re.findall(r"- alert: (\w+)", (PROMETHEUS / "alerts.yml").read_text()):
            times = re.findall(rf"alertname: {alert}\b.*\n?(?:.*eval_time.*\n)?( *exp_alerts)?", tests)
            self.assertIn("exp_alerts", " ".join(times), alert)
            self.assertIn("", times, alert)

    def test_config_of_alertmanager_is_valid(self):
        self.assert_ends_well("amtool", "check-config", PROMETHEUS / "alertmanager.example.yml")

    def test_alertmanager_sends_critical_alerts_at_once(self):
        file = f"--config.file={PROMETHEUS / 'alertmanager.example.yml'}"
        for severity, receiver in (("critical", "people-now"), ("warning", "people")):
            output = self.assert_ends_well("amtool", "config", "routes", "test", file,
                                           f"severity={severity}")
            self.assertEqual(output.splitlines()[-1], receiver)


if __name__ == "__main__":
    unittest.main()
