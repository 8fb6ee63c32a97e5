"""The arguments of a driver, which a launcher gives it."""

from __future__ import annotations

import argparse

from ...core.registry.deployment import DriverRole


def parser_of(what: str) -> argparse.ArgumentParser:
    """Return the parser of a driver's arguments. what: is driven, for its help"""
    parser = argparse.ArgumentParser(description=f"{what}. Started by `streamupdate submit` or Airflow.")
    modes = parser.add_subparsers(dest="mode", required=True)
    run = modes.add_parser("run", help="run a deployment that is in the registry")
    for option in ("root", "app", "deployment"):
        run.add_argument(f"--{option}", required=True)
    run.add_argument("--epoch", type=int, required=True)
    run.add_argument("--role", choices=[str(role) for role in DriverRole], default=str(DriverRole.RUN))
    run.add_argument(
        "--follow",
        type=int,
        default=0,
        metavar="N",
        help="of a standby: run the current deployment's batches, muted, from the last N on",
    )
    run.add_argument("--compare-with", metavar="ID", help="of a witness: compare rows with those of this deployment")
    plan = modes.add_parser("plan", help="write the plan, start nothing")
    plan.add_argument("--out", required=True, help="file to write the plan (JSON) to")
    plan.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter")
    plan.add_argument("--script", metavar="FILE", help="plan a script, which is app --app, with --arguments")
    plan.add_argument("--app", help="with --script: the app's name")
    plan.add_argument("--arguments", default="[]", metavar="JSON", help="with --script: a list of texts")
    plan.add_argument("--seen-batch", action="append", default=[], metavar="QUERY=VALUE", help="with --script")
    plan.add_argument("--muted", action="store_true", help="with --script: its queries write into nothing")
    plan.add_argument(
        "--in-folder", action="store_true", help="with --script: it lay in its drivers' working directory"
    )
    plan.add_argument("--root", help="with --against: the registry's root")
    plan.add_argument(
        "--against",
        help="check against snapshot:NAME, deployment:ID, current, plan:FILE, or nothing: a start without state",
    )
    plan.add_argument(
        "--rehearse", type=int, metavar="K", help="with --against snapshot:[NAME]: run K batches from that snapshot"
    )
    plan.add_argument("--scratch", help="with --rehearse: the name of the scratch folder")
    plan.add_argument("--fork", action="store_true", help="check it as a fork")
    plan.add_argument("--from-app", help="with --fork: the app that the snapshot belongs to")
    plan.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="a stage's or source's new name")
    plan.add_argument("--adopt", action="append", default=[], metavar="QUERY=URI", help="check a checkpoint to adopt")
    plan.add_argument("--adopt-own", action="store_true", help="check the checkpoints that a script names itself")
    plan.add_argument("--agree", action="append", default=[], metavar="NAME", help="a loss that is agreed to")
    return parser
