#!/usr/bin/env python3
"""The HTTP side of `sextant export`: what it serves, and what it refuses.

usage: test_http.py SEXTANT CASE
"""
import os
import socket
import sys
import tempfile
import threading
import time

from exporter import OPEN, PLAIN, Exporter, until

from make_segment import job

SEXTANT = sys.argv[1]
CLIENTS_MAX = 32
REQUEST_SEC = 15


def pages(exporter):
    for path, status, start in (("/", 200, "<!DOCTYPE html>"), ("/healthz", 200, "ok\n"),
                                ("/metrics", 200, "# HELP"), ("/metrics?x=1", 200, "# HELP"),
                                ("/metrics/", 404, "only /metrics"), ("/x", 404, "only"),
                                ("/../etc/passwd", 404, "only"), ("//metrics", 404, "only"),
                                ("/%2e%2e/etc/passwd", 404, "only"), ("/metric", 404, "only")):
        found, headers, body = exporter.request(path=path)
        assert found == status and body.startswith(start), (path, found, body[:80])
        assert headers["Connection"].lower() == "close"
        found, headers, body = exporter.request("HEAD", path)
        assert found == status and body == "" and int(headers["Content-Length"]) > 0, path


def methods(exporter):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"):
        for path in ("/metrics", "/", "/healthz", "/x"):
            status, headers, _ = exporter.request(method, path)
            assert status == 405 and headers["Allow"] == "GET, HEAD", (method, path, status)
    assert exporter.page().one("sextant_export_info") == 1


def formats(exporter):
    prometheus = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                  "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    for accept, wanted in ((prometheus, OPEN), ("*/*", PLAIN), ("text/plain", PLAIN), ("", PLAIN),
                           ("application/openmetrics-text", OPEN), ("text/*", PLAIN),
                           ("application/openmetrics-text; version=0.0.1", OPEN),
                           ("application/openmetrics-text; version=9.0.0, */*;q=0.1", PLAIN),
                           ("application/openmetrics-text;q=0.2, text/plain;q=0.5", PLAIN),
                           ("text/plain ; q=0.1 , APPLICATION/OpenMetrics-Text ; q=0.2", OPEN),
                           ("application/openmetrics-text;q=0", PLAIN),
                           ("application/openmetrics-textual", PLAIN), (",;,=q;q=,", PLAIN)):
        status, headers, body = exporter.request(Accept=accept)
        assert status == 200 and headers["Content-Type"] == wanted, (accept, headers)
        assert body.endswith("# EOF\n") == (wanted == OPEN)
    assert exporter.page(True).families == exporter.page(False).families


def connect(exporter):
    return socket.create_connection(("127.0.0.1", exporter.port), timeout=60)


def answer_to(exporter, request):
    """All that comes back until the connection ends."""
    with connect(exporter) as client:
        answer = b""
        try:
            client.sendall(request)
            while True:
                more = client.recv(65536)
                if more == b"":
                    break
                answer += more
        except ConnectionError:
            pass
    return answer


def garbage(exporter):
    """Requests that are none, or too large, end in an error, at once."""
    for request in (b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
                    b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                    b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
                    b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
                    + b"z" * 1_000_000,
                    b"\0" * 4096 + b"\r\n\r\n", os.urandom(4096) + b"\r\n\r\n",
                    b"GET /metrics HTTP/9.9\r\n\r\n", b"\r\n" * 50_000):
        start = time.monotonic()
        answer = answer_to(exporter, request)
        assert not answer.startswith(b"HTTP/1.1 200"), (request[:60], answer[:200])
        assert time.monotonic() - start < 60, request[:60]
    assert exporter.page().one("sextant_export_info") == 1


def slow(exporter):
    """Clients that never end their request are cut, whether they are idle or drip."""
    stop = threading.Event()
    clients = [connect(exporter) for _ in range(CLIENTS_MAX)]

    def drip(client):
        try:
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            while not stop.wait(1):
                client.sendall(b"y")
        except OSError:
            pass

    threads = [threading.Thread(target=drip, args=(client,)) for client in clients[::2]]
    for thread in threads:
        thread.start()
    start = time.monotonic()

    def served():
        try:
            return exporter.request()[0] == 200
        except OSError:
            return False

    until(served)
    for client in clients:  # each was ended by the other side
        try:
            assert client.recv(4096)[:12] != b"HTTP/1.1 200"
        except ConnectionError:
            pass
    assert time.monotonic() - start < 4 * REQUEST_SEC
    stop.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()


def reluctant(exporter):
    """A client that asks and does not read takes nothing from the others."""
    clients = [connect(exporter) for _ in range(4)]
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    for _ in range(5):
        assert exporter.page().one("sextant_export_info") == 1
    for client in clients:
        client.close()


def main():
    cases = {"pages": pages, "methods": methods, "formats": formats, "garbage": garbage,
             "slow": slow, "reluctant": reluctant}
    with tempfile.TemporaryDirectory() as folder:
        for segment in job(100):
            segment.write(folder)
        with Exporter(SEXTANT, folder) as exporter:
            cases[sys.argv[2]](exporter)


main()
