#!/usr/bin/env python3
"""`sextant export` beside `sextant bench`, on the software HCA: what moves is told while it moves.

usage: sextant soft run -- test_live.py SEXTANT PLUGIN
"""
import os
import subprocess
import sys

from exporter import Exporter, promtool, until

SEXTANT, PLUGIN = sys.argv[1:]
JOB = f"torchrun:export-{os.getpid()}"
BYTES = "sextant_connection_bytes_total"
SIZE, ITERATIONS, RANKS = 1 << 16, 10000, 2


def check_end(page):
    ours = {"job_id": JOB}
    sends, receives = dict(ours, direction="send"), dict(ours, direction="receive")
    assert page.sum(BYTES, **sends) == page.sum(BYTES, **receives) >= SIZE * ITERATIONS * RANKS
    for labels in (sends, receives):
        messages = page.sum("sextant_connection_messages_total", **labels)
        assert messages > 0
        assert page.sum("sextant_connection_message_size_bytes_count", **labels) == messages
        assert page.sum("sextant_connection_requests_total", **labels) == \
            page.sum("sextant_connection_requests_done_total", **labels)
    for waits_for in ("peer", "wire", "caller"):
        assert page.sum("sextant_connection_wait_seconds_count", waits_for=waits_for, **ours) > 0
    assert page.sum("sextant_connection_open", **ours) == 0
    assert page.sum("sextant_connection_in_flight", **ours) == 0


def is_whole(page):
    """All ranks are there and connected; a page is read record by record, not at one moment."""
    return page.sum("sextant_process_alive", job_id=JOB) == RANKS and \
        page.sum("sextant_connection_open", job_id=JOB) >= 2 * RANKS and \
        any(name == "sextant_port_peer_info" for name, _ in page.samples)


def check_ports(page):
    """The ports that processes name are those that /sys names."""
    def used(name):
        return {(labels["hca"], labels["port"]) for found, has in page.samples
                for labels in [dict(has)] if found == name and labels.get("job_id") in (None, JOB)}

    assert used("sextant_port_process_info") <= used("sextant_port_info") != set()
    assert used("sextant_port_peer_info") <= used("sextant_port_info")
    assert used("sextant_port_peer_info") != set()


def main():
    root = os.environ["SEXTANT_SYSROOT"]
    with Exporter(SEXTANT, "/dev/shm", root=root) as exporter:
        bench = subprocess.Popen(
            [SEXTANT, "bench", "--plugin", PLUGIN, "--ranks", str(RANKS), "--hosts", "2",
             "--pattern", "sendrecv", "-b", str(SIZE), "-e", str(SIZE), "-n", str(ITERATIONS)],
            env=dict(os.environ, TORCHELASTIC_RUN_ID=JOB[9:]),
            stdout=subprocess.DEVNULL)
        live = until(lambda: is_whole(page := exporter.page()) and page)
        last = 0
        while bench.poll() is None:
            page = exporter.page(open_metrics=True)
            now = page.sum(BYTES, job_id=JOB)
            assert now >= last
            last = now
        assert bench.returncode == 0
        page = until(lambda: (page := exporter.page()).sum("sextant_process_alive", job_id=JOB)
                     == 0 and page)
        # The software HCA's counters of this host, on which one of the ranks was.
        subprocess.run([SEXTANT, "soft", "show"], check=True, stdout=subprocess.DEVNULL)
        page = exporter.page()
        assert page.sum("sextant_port_transmitted_bytes_total") >= SIZE * ITERATIONS
        check_end(page)
        check_ports(live)
        status, said = promtool("check", "metrics", text=page.text)
        assert status == 0, said


main()
