"""Snapshot files with known contents, laid out as docs/top.md says."""
import errno
import io
import json
import os
import sys
import tarfile

for _folder in ("telemetry", "golden", "unit/cli"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", _folder))
import make_segment  # noqa: E402

NS = make_segment.NS
TOP = "sextant-snapshot/"
TAKEN_NS = 1_767_323_045 * NS


def manifest(segments, at, alive, misses=(), **changes):
    document = {
        "schema": "sextant.snapshot/1", "version": "0.1.0", "host": "node1",
        "taken_ns": TAKEN_NS + at * NS,
        "segments": [{"file": segment.name(), "alive": segment.facts["pid"] in alive,
                      "now_ticks": segment.ticks(at * NS if segment.facts["pid"] in alive
                                                 else 60 * NS)} for segment in segments],
        "unreadable": [{"file": file, "error": error, "errno": getattr(errno, error)}
                       for file, error in misses]}
    return document | changes


def add(archive, name, data):
    entry = tarfile.TarInfo(TOP + name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def write(path, segments, document, counters=None, mode="w:gz"):
    """counters: {"mlx5_0/1/counters/port_xmit_data": value}."""
    with tarfile.open(path, mode, format=tarfile.USTAR_FORMAT) as archive:
        if document is not None:
            add(archive, "manifest.json", json.dumps(document).encode())
        for segment in segments:
            add(archive, "segments/" + segment.name(), segment.bytes())
        for name, value in (counters or {}).items():
            add(archive, "counters/" + name, f"{value}\n".encode())
    return path


def job(path, at):
    """The job of make_segment.py, with ports that carry a little more than what is ours."""
    counters = {}
    for hca in ("mlx5_0", "mlx5_1"):
        counters[f"{hca}/1/counters/port_xmit_data"] = 11 * NS * at // 4
        counters[f"{hca}/1/counters/port_rcv_data"] = 9 * NS * at // 4
    segments = make_segment.job(at)
    return write(path, segments, manifest(segments, at, {4711, 4712}), counters)
