"""A network that is slow: a proxy before an HTTP server that delays what it is asked, stands still, and counts."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import attrs

_BEGINS = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) ")  # a request


@attrs.define
class SlowNetwork:
    """server, port: where the server is on this machine, and where one reaches it through this network
    delay: least and most seconds before a request is passed on
    passing: while it is cleared, nothing gets through
    asked: requests by method
    """

    server: int
    port: int = 0
    delay: tuple[float, float] = (0.0, 0.0)
    passing: threading.Event = attrs.field(factory=threading.Event)
    asked: Counter[str] = attrs.field(factory=Counter)
    chance: random.Random = attrs.field(factory=lambda: random.Random(1))

    def carry(self, client: socket.socket) -> None:
        """One connection, until either side ends it."""
        with socket.create_connection(("127.0.0.1", self.server)) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def answers() -> None:
                while data := _received(server):
                    self.passing.wait()
                    client.sendall(data)
                client.shutdown(socket.SHUT_RDWR)

            back = threading.Thread(target=_quietly, args=(answers,), daemon=True)
            back.start()
            while data := _received(client):
                if begins := _BEGINS.match(data):  # not the rest of a long one
                    self.asked[begins[1].decode()] += 1
                    time.sleep(self.chance.uniform(*self.delay))
                self.passing.wait()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join()


@contextlib.contextmanager
def slow_network(server: int) -> Iterator[SlowNetwork]:
    """The network to a server of this machine, while the block runs."""
    network = SlowNetwork(server)
    network.passing.set()

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            _quietly(lambda: network.carry(self.request))

    class Proxy(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 256

    with Proxy(("127.0.0.1", 0), Connection) as proxy:
        network.port = proxy.server_address[1]
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield network
        finally:
            network.passing.set()
            proxy.shutdown()
            thread.join()


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""


def _quietly(work: Callable[[], None]) -> None:
    """Whoever is cut off says so himself."""
    with contextlib.suppress(OSError):
        work()
