"""Running `sextant export` and understanding what it says."""
import http.client
import os
import re
import shutil
import subprocess
import sys
import time

for _folder in ("telemetry", "doctor"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", _folder))

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "info": ("_info",),
            "histogram": ("_bucket", "_sum", "_count")}


def need(program):
    """Its path; Debian and Ubuntu have both in one package."""
    path = shutil.which(program)
    if path is None:
        sys.exit(f"{program} is missing: apt-get install prometheus")
    return path


def until(what, seconds=60):
    """Polls until what() is true; its value."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class Page:
    """Samples by name and labels, families by name."""

    def __init__(self, text, open_metrics=False):
        self.text, self.samples, self.families = text, {}, {}
        lines = text.split("\n")
        assert lines.pop() == "", "the last line has no end"
        if open_metrics:
            assert lines.pop() == "# EOF"
        family = None
        for line in lines:
            if line.startswith("# "):
                word, name, rest = line[2:].split(" ", 2)
                if word == "TYPE":
                    family = self.family(name, rest, open_metrics)
                assert word in ("TYPE", "HELP") or open_metrics and word == "UNIT" and \
                    name.endswith("_" + rest), line
                continue
            match = _SAMPLE.fullmatch(line)
            assert match, f"no sample: {line!r}"
            name, labels, value = match.groups()
            assert name in family, f"{name} is not of the family {family}"
            key = (name, frozenset(_LABEL.findall(labels or "")))
            assert key not in self.samples, f"twice: {line}"
            self.samples[key] = float(value)

    def family(self, name, kind, open_metrics):
        if not open_metrics and kind == "counter":
            assert name.endswith("_total"), name
            name = name[:-6]
        elif not open_metrics and name.endswith("_info"):
            name, kind = name[:-5], "info"
        assert name not in self.families, f"{name} begins twice"
        self.families[name] = kind
        return tuple(name + suffix for suffix in SUFFIXES[kind])

    def all(self, name, **labels):
        """Values of the samples that have at least these labels."""
        wanted = frozenset(labels.items())
        return [value for (found, has), value in self.samples.items()
                if found == name and wanted <= has]

    def one(self, name, **labels):
        values = self.all(name, **labels)
        assert len(values) == 1, f"{len(values)} of {name}{labels}"
        return values[0]

    def sum(self, name, **labels):
        return sum(self.all(name, **labels))


class Exporter:
    """A running one; `with` ends it. Every page it gives is checked for its form."""

    def __init__(self, sextant, folder, *options, root=None):
        env = dict(os.environ, SEXTANT_SYSROOT=root or "/nonexistent")
        self.process = subprocess.Popen(
            [sextant, "export", "--dir", folder, "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE, text=True, env=env)
        line = self.process.stdout.readline()
        match = re.fullmatch(r"sextant export: http://127\.0\.0\.1:(\d+)/metrics\n", line)
        assert match, f"does not say where: {line!r}"
        self.port = int(match.group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(30) == 0, "ended badly"
        self.process.stdout.close()

    def request(self, method="GET", path="/metrics", **headers):
        """(status, headers, text) of one answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        client.request(method, path, headers=headers)
        response = client.getresponse()
        body = response.read().decode()
        client.close()
        return response.status, response.headers, body

    def page(self, open_metrics=False):
        accept = "application/openmetrics-text" if open_metrics else "text/plain"
        status, headers, body = self.request(Accept=accept)
        assert status == 200, body
        assert headers["Content-Type"] == (OPEN if open_metrics else PLAIN)
        return Page(body, open_metrics)


def once(sextant, folder, *options, root=None):
    done = subprocess.run([sextant, "export", "--once", "--dir", folder, *options], check=True,
                          stdout=subprocess.PIPE, text=True,
                          env=dict(os.environ, SEXTANT_SYSROOT=root or "/nonexistent"))
    return Page(done.stdout)


def promtool(*args, text=None):
    """(status, all that it says)."""
    done = subprocess.run([need("promtool"), *args], input=text, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout
