#!/usr/bin/env python3
"""A connection that is far away: passes bytes on between its standard streams and a TCP port, each way this much later.

usage: delay.py MILLISECONDS HOST PORT

Tests use it as a ProxyCommand of ssh. Bytes are read as soon as they come, so the delay leaves the rate as it is.
"""

import os
import queue
import socket
import sys
import threading
import time

PIECE_BYTES = 1 << 16
PIECES_MAX = 1 << 10


def take(source, way, delay):
    piece = b" "
    while piece:
        try:
            piece = os.read(source, PIECE_BYTES)
        except ConnectionError:
            piece = b""
        way.put((time.monotonic() + delay, piece))


def give(way, sink, close):
    while True:
        moment, piece = way.get()
        time.sleep(max(0.0, moment - time.monotonic()))
        if not piece:
            close()
            return
        while piece:
            piece = piece[os.write(sink, piece):]


def start(source, sink, close, delay):
    way = queue.Queue(PIECES_MAX)
    threading.Thread(target=take, args=(source, way, delay), daemon=True).start()
    giver = threading.Thread(target=give, args=(way, sink, close), daemon=True)
    giver.start()
    return giver


def main():
    delay = float(sys.argv[1]) / 1000
    connection = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start(0, connection.fileno(), lambda: connection.shutdown(socket.SHUT_WR), delay)
    # The server's end ends it; what the client has still to say would reach nobody.
    start(connection.fileno(), 1, lambda: None, delay).join()


# A side that is gone ends the connection; neither needs to be told more.
threading.excepthook = lambda _: os._exit(1)
main()
