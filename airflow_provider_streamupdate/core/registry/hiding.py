"""What records say, as it may be shown: they may quote a log, and a log what an app was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..errors import StreamUpdateError
from ..redaction import hide, redacted, secret_values
from .application import Application
from .deployment import DeploymentSpec, Status
from .in_flight import ParameterChange
from .registry import AppRegistry
from .update import RollbackRecord, UpdateRecord

_TEXTS = ("error", "reason")  # of an event: its other values are words of this package


@attrs.frozen
class Hiding:
    """Hides what deployments were given under names that suggest a secret, and whatever looks like a secret."""

    values: tuple[str, ...] = ()  # what is hidden, the longest first

    @classmethod
    def of(cls, specs: Iterable[DeploymentSpec]) -> Hiding:
        return cls.of_applications(spec.application for spec in specs)

    @classmethod
    def of_applications(cls, applications: Iterable[Application]) -> Hiding:
        return cls(secret_values(*(part for a in applications for part in a.settings)))

    @classmethod
    def in_app(cls, registry: AppRegistry, *deployments: str) -> Hiding:
        """Collect the secrets of these deployments, or of all deployments of the app. Unreadable ones are left out."""
        return cls.of(
            spec for name in deployments or registry.folder.names("deployments") if (spec := _spec(registry, name))
        )

    def also(self, *settings: Mapping[str, str]) -> Hiding:
        """Return one that hides the secrets in these settings, too."""
        return Hiding((*secret_values(*settings), *self.values))

    def text(self, text: str) -> str:
        return hide(text, self.values)

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Parameters, configuration or environment: a secret may also stand under another name."""
        return redacted(settings, self.values)

    def application(self, application: Application) -> Application:
        params, conf = self.settings(application.params), self.settings(application.conf)
        env_vars, master = self.settings(application.env_vars), self._maybe(application.master)
        script = application.script and attrs.evolve(
            application.script, arguments=tuple(map(self.text, application.script.arguments))
        )
        return attrs.evolve(application, params=params, conf=conf, env_vars=env_vars, master=master, script=script)

    def change(self, change: ParameterChange) -> tuple[dict[str, str], dict[str, str]]:
        """Return the parameters before and after a change in flight."""
        before, after = change.before, change.request.params
        hiding = self.also(before, after)
        return hiding.settings(before), hiding.settings(after)

    def status(self, status: Status) -> Status:
        if not (status.error or status.reason or any(query.error for query in status.queries.values())):
            return status
        queries = {n: attrs.evolve(q, error=self.text(q.error)) if q.error else q for n, q in status.queries.items()}
        error, reason = self._maybe(status.error), self._maybe(status.reason)
        return attrs.evolve(status, queries=queries, error=error, reason=reason)

    def update(self, record: UpdateRecord) -> UpdateRecord:
        return attrs.evolve(
            record,
            reason=self._maybe(record.reason),
            verified=tuple(map(self.text, record.verified)),
            attempts=tuple(attrs.evolve(attempt, error=self._maybe(attempt.error)) for attempt in record.attempts),
        )

    def rollback(self, record: RollbackRecord) -> RollbackRecord:
        return attrs.evolve(record, reason=self._maybe(record.reason))

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event of a driver."""
        shown = {k: self.text(v) if k in _TEXTS and isinstance(v, str) else v for k, v in event.items()}
        if isinstance(changed := event.get("parameters"), dict):  # in flight: each before and after
            pairs = {k: values for k, values in changed.items() if isinstance(values, (list, tuple))}
            hiding = self.also(*({k: v} for k, values in pairs.items() for v in values if isinstance(v, str)))
            shown["parameters"] = {
                k: [v if v is None else hiding.settings({k: str(v)})[k] for v in values] for k, values in pairs.items()
            }
        return shown

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)


def _spec(registry: AppRegistry, deployment: str) -> DeploymentSpec | None:
    try:
        return registry.spec(deployment)
    except StreamUpdateError:
        return None
