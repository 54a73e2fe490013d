#!/usr/bin/python3
"""Passes one TCP connection on, and never passes on that a side went away.

usage: relay.py FROM_PORT TO_PORT

A rank behind it that dies is not missed by the ranks' own rendezvous: whoever still notices has
noticed in another way.
"""

import socket
import sys
import threading
import time


def dial(port):
    """A connection to a server that may not listen yet."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.1)


def copy(source, sink):
    """Copies until a side is gone, which the other is not told."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass


def main():
    """Serves one connection, and then waits to be killed."""
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    client, _ = server.accept()
    upstream = dial(int(sys.argv[2]))
    threading.Thread(target=copy, args=(upstream, client), daemon=True).start()
    copy(client, upstream)
    while True:
        time.sleep(1)


main()
