#!/usr/bin/env python3
"""The example's rules, dashboard and configuration, by promtool and a real Prometheus.

usage: test_prometheus.py SEXTANT EXAMPLE_FOLDER DOC CASE
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from exporter import SUFFIXES, Exporter, need, once, promtool, until

import trees

from make_segment import job

SEXTANT, EXAMPLE, DOC = sys.argv[1:4]
RULES = os.path.join(EXAMPLE, "sextant.rules.yml")
_NAME = re.compile(r"\bsextant_[a-z_]+\b")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def rules(folder):
    """promtool accepts rules, their tests and the configuration, and sees what is damaged."""
    status, said = promtool("check", "rules", RULES)
    assert status == 0 and "SUCCESS" in said, said
    status, said = promtool("test", "rules", os.path.join(EXAMPLE, "sextant.rules.test.yml"))
    assert status == 0 and "SUCCESS" in said, said
    status, said = promtool("check", "config", os.path.join(EXAMPLE, "prometheus.yml"))
    assert status == 0, said
    # Each alert has a test that sees it gone.
    whole = read(RULES)
    shutil.copy(os.path.join(EXAMPLE, "sextant.rules.test.yml"), folder)
    alerts = re.findall(r"- alert: (\w+)\n\s+expr:(?: \|\n)?((?:.|\n)*?)\n\s+(?:for|labels):", whole)
    assert len(alerts) == whole.count("- alert:") > 8
    for name, expression in alerts:
        with open(os.path.join(folder, "sextant.rules.yml"), "w", encoding="utf-8") as file:
            file.write(whole.replace(expression, expression + " > 1e300", 1))
        status, said = promtool("test", "rules", os.path.join(folder, "sextant.rules.test.yml"))
        assert status != 0 and name in said, (name, said)


def names_of(page):
    return {name + suffix for name, kind in page.families.items() for suffix in SUFFIXES[kind]}


def names(folder):
    """Rules, dashboard and documentation speak of metrics that there are, the latter of all."""
    for segment in job(100):
        segment.write(folder)
    page = once(SEXTANT, folder)
    known = names_of(page)
    dashboard = json.loads(read(EXAMPLE, "dashboard.json"))
    used = [target["expr"] for panel in dashboard["panels"]
            for target in panel.get("targets", ())]
    assert len(used) > 10
    for where, text in (("rules", read(RULES)), ("dashboard", "\n".join(used))):
        unknown = set(_NAME.findall(text)) - known
        assert not unknown, f"{where}: {unknown}"
    table = set(re.findall(r"^\| `(sextant_[a-z_]+)`", read(DOC), re.M))
    told = {name + (SUFFIXES[kind][0] if kind in ("counter", "info") else "")
            for name, kind in page.families.items()}
    assert table == told, table ^ told
    for name, kind in page.families.items():
        row = re.search(rf"^\| `{name}\w*` \| (\w+)", read(DOC), re.M)
        assert row and row.group(1) == kind, (name, kind)
    expressions(folder, used)


def expressions(folder, used):
    """promtool parses each of the dashboard's expressions, as the rule of a file."""
    lines = ["groups:", "  - name: dashboard", "    rules:"]
    for number, expression in enumerate(used):
        plain = re.sub(r"\$__(rate_)?interval", "5m", re.sub(r"\$\{?(job_id|instance)\}?", ".*",
                                                             expression))
        lines += [f"      - record: dashboard:{number}", f"        expr: {json.dumps(plain)}"]
    path = os.path.join(folder, "dashboard.rules.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    status, said = promtool("check", "rules", path)
    assert status == 0 and f"{len(used)} rules found" in said, said


class Prometheus:
    """A server of its own, with the example's rules, that scrapes some exporters each second."""

    def __init__(self, folder, exporters):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        targets = ", ".join(f"'127.0.0.1:{exporter.port}'" for exporter in exporters)
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as file:
            file.write(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n"
                       f"rule_files: ['{os.path.abspath(RULES)}']\n"
                       f"scrape_configs:\n  - job_name: sextant\n"
                       f"    static_configs: [{{targets: [{targets}]}}]\n")
        self.log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [need("prometheus"), f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", "--storage.tsdb.retention.size=64MB",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=subprocess.STDOUT, env=dict(os.environ, GOMAXPROCS="1"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def get(self, path, **query):
        assert self.process.poll() is None, read(self.folder, "log")
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            assert error.code == 503, error.read()  # it is starting
            return None
        except OSError:
            return None

    def query(self, expression):
        """{instance or job: value}, empty while there is nothing."""
        data = self.get("query", query=expression) or {"result": []}
        return {row["metric"].get("instance", ""): float(row["value"][1])
                for row in data["result"]}


def scrape(folder):
    """Prometheus scrapes two exporters of two hosts and answers over both."""
    for host, scale in (("a", 100), ("b", 200)):
        os.mkdir(f"{folder}/{host}")
        for segment in job(scale):
            segment.write(f"{folder}/{host}", lives=True)
    os.mkdir(f"{folder}/sys")
    trees.roce().write(f"{folder}/sys")
    with Exporter(SEXTANT, f"{folder}/a", root=f"{folder}/sys") as first, \
            Exporter(SEXTANT, f"{folder}/b") as second, \
            Prometheus(folder, [first, second]) as prometheus:
        a, b = (f"127.0.0.1:{exporter.port}" for exporter in (first, second))
        both = {a: 3.604e12, b: 7.204e12}
        sent = "sum by (instance) (sextant_connection_bytes_total)"
        until(lambda: prometheus.query(sent) == both, 120)
        assert prometheus.query("up") == {a: 1, b: 1}
        targets = prometheus.get("targets")["activeTargets"]
        assert len(targets) == 2 and all(target["lastError"] == "" for target in targets), targets
        # Nothing stood twice, out of order or otherwise had to be dropped.
        assert prometheus.query("scrape_samples_scraped - scrape_samples_post_metric_relabeling") \
            == {a: 0, b: 0}
        assert "warn" not in read(folder, "log"), read(folder, "log")
        assert prometheus.query("histogram_quantile(0.99, sum by (instance, le) ("
                                "sextant_connection_wait_seconds_bucket{waits_for='caller'}))"
                                ).keys() == {a, b}
        # A port's counter joined with the job that uses the port.
        joined = prometheus.query("max by (instance, job_id) (sextant_port_up * on (instance, hca,"
                                  " port) group_right () sextant_port_process_info)")
        assert joined == {a: 1}, joined
        alerts = {rule["name"] for group in prometheus.get("rules")["groups"]
                  for rule in group["rules"] if rule["health"] == "err"}
        assert not alerts, alerts


def main():
    cases = {"rules": rules, "names": names, "scrape": scrape}
    with tempfile.TemporaryDirectory() as folder:
        cases[sys.argv[4]](folder)


main()
