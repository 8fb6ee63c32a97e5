"""Commands to a driver, through storage: ``deployments/<id>/commands/<epoch>/<name>.json`` and its ``.result.json``.

A command belongs to one epoch, so that a restarted driver never obeys an old one. Its name is chosen by what it asks
for, so that asking twice is asking once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import attrs

from .. import clock
from ..errors import CorruptError, NewerFormatError, StorageError
from ..names import named
from ..registry.in_flight import ChangeRequest
from ..serde import from_json, read_file, to_json
from ..storage import Folder

SNAPSHOT, DRAIN, CANCEL, SUSPEND, RESUME = "snapshot", "drain", "cancel", "suspend", "resume"
CHANGE = "change"


@attrs.frozen(kw_only=True)
class Command:
    """A command to a driver."""

    name: str
    kind: str  # one of the words above
    issued_at: str = attrs.field(validator=clock.is_moment)
    snapshot: str | None = attrs.field(default=None, validator=named("snapshot"))
    cancel: bool = False  # end the app with the snapshot
    # the deployment whose driver stands by to continue from there
    successor: str | None = attrs.field(default=None, validator=named("deployment"))
    change: ChangeRequest | None = None  # the parameters to continue with


@attrs.frozen(kw_only=True)
class CommandResult:
    """The answer to a command."""

    done_at: str = attrs.field(validator=clock.is_moment)
    error: str | None = None  # None: it was carried out


class CommandBox:
    """The commands of one deployment's epoch; the controller issues, the agent answers."""

    def __init__(self, deployment: Folder, epoch: int) -> None:
        self._deployment = deployment
        self._path = f"commands/{epoch}"
        self.folder = deployment.sub(self._path)
        self._undelivered: dict[str, CommandResult] = {}  # by path, of the epochs before, too

    def of_epoch(self, epoch: int) -> CommandBox:
        """Return the box of a later epoch of the same driver."""
        box = CommandBox(self._deployment, epoch)
        box._undelivered = self._undelivered
        return box

    def issue(
        self,
        kind: str,
        snapshot: str | None = None,
        cancel: bool = False,
        successor: str | None = None,
        change: ChangeRequest | None = None,
    ) -> str:
        """Issue a command; return its name. A failed attempt may be repeated (under a new name); a pending or fulfilled
        one is not issued twice."""
        what = change.id if change else snapshot
        base = f"{kind}-{what}" if what else kind
        number = 1
        while True:
            name = f"{base}.{number}"
            command = Command(
                name=name,
                kind=kind,
                issued_at=clock.now(),
                snapshot=snapshot,
                cancel=cancel,
                successor=successor,
                change=change,
            )
            if self.folder.create(f"{name}.json", to_json(command)):
                return name
            result = self.result(name)
            if result is None or (result.error is None and kind in (SNAPSHOT, CHANGE)):
                return name
            number += 1

    def pending(self, refuse: bool = False) -> list[Command]:
        """Commands without an answer, oldest first; those that cannot be read are left out.

        refuse: answer unreadable ones with the reason, so that the driver continues and the sender learns it
        """
        with contextlib.suppress(StorageError):
            self.deliver()
        names = set(self.folder.names())
        commands = []
        for name in _command_names(names):
            answered = f"{name}.result.json" in names or self._answer_path(name) in self._undelivered
            if not answered and (text := self.folder.read(f"{name}.json")) is not None:
                try:
                    commands.append(self._command(name, text))
                except (CorruptError, NewerFormatError) as error:
                    if refuse:
                        self.answer(name, f"the driver cannot read this command and ignored it: {error}")
        return sorted(commands, key=lambda c: c.issued_at)

    def told_to_rest(self) -> bool:
        """Return whether the driver was told to end, or to suspend and has not come to it: it is not to run again
        without a word."""
        return self.told_to_end() or any(command.kind == SUSPEND for command in self.pending())

    def told_to_end(self) -> bool:
        """Return whether the driver was told to end, and has not answered that it could not."""
        for name in _command_names(set(self.folder.names())):
            with contextlib.suppress(CorruptError, NewerFormatError):
                text = self.folder.read(f"{name}.json")
                command = self._command(name, text) if text is not None else None
                ends = command is not None and (command.kind in (CANCEL, DRAIN) or command.cancel)
                if ends and ((result := self.result(name)) is None or result.error is None):
                    return True
        return False

    def _command(self, name: str, text: bytes) -> Command:
        command = from_json(text, Command, self.folder.path(f"{name}.json"))
        if command.name != name:  # its answer would be written elsewhere
            raise CorruptError(f"{self.folder.path(name)}.json says that it is {command.name!r}; remove it")
        return command

    def answer(self, name: str, error: str | None = None) -> None:
        """Answer a command. What cannot be written now is kept for `deliver`: who is healthy does not end for it."""
        self._undelivered[self._answer_path(name)] = CommandResult(done_at=clock.now(), error=error)
        with contextlib.suppress(StorageError):
            self.deliver()

    def deliver(self) -> None:
        """Write the answers that could not be written; StorageError when they still cannot."""
        for path, result in list(self._undelivered.items()):
            self._deployment.write(path, to_json(result))
            self._undelivered.pop(path, None)

    def _answer_path(self, name: str) -> str:
        return f"{self._path}/{name}.result.json"

    def result(self, name: str) -> CommandResult | None:
        return read_file(self.folder, f"{name}.result.json", CommandResult)

    def answers(self, kind: str, snapshot: str | None = None) -> list[CommandResult]:
        """The answers to all attempts at such a command, oldest first."""
        base, number, found = f"{kind}-{snapshot}" if snapshot else kind, 1, []
        while self.folder.exists(f"{base}.{number}.json"):
            if result := self.result(f"{base}.{number}"):
                found.append(result)
            number += 1
        return found

    def issued(self, kind: str, snapshot: str | None = None) -> bool:
        """Whether such a command was ever issued in this epoch."""
        base = f"{kind}-{snapshot}" if snapshot else kind
        return self.folder.exists(f"{base}.1.json")


def _command_names(names: Iterable[str]) -> list[str]:
    return [n[:-5] for n in names if n.endswith(".json") and not n.endswith(".result.json")]
