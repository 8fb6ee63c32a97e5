"""A mail server that keeps what it gets: as much of SMTP as Python's smtplib speaks."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage


class Mailbox(socketserver.ThreadingTCPServer):
    """mails: the messages, as they came"""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[EmailMessage] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The subject and the body of each."""
        return [(str(mail["Subject"]), mail.get_body(("html",)).get_content()) for mail in self.mails]


class _Session(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        self._say("220 ready")
        for line in self.rfile:
            command = line[:4].upper()
            if command == b"DATA":
                self._say("354 go on")
                body = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.mails.append(message_from_bytes(body, policy=policy.default))
            self._say("221 bye" if command == b"QUIT" else "250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """A server that takes mail while the block runs."""
    with Mailbox() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
