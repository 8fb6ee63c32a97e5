"""The record of a pipeline, and how its checkpoints change: whole, or completed by whoever comes next."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.core.errors import CorruptError, NotFoundError, RefusedError
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.pipelines import record as records
from airflow_provider_streamupdate.pipelines import steps
from airflow_provider_streamupdate.pipelines.record import FlowRecord, Phase, PipelineRecord
from airflow_provider_streamupdate.pipelines.steps import rewrite_paths

from .builders import query_plan, stage_plan

OLD, NEW = stage_plan(), stage_plan(definition={"keys": ["source-1.dest"], "aggregates": ["count(1)"]})
FLOWS = ("counts", "late", "same")  # the first two have changed code


def folder_of(flow: str) -> str:
    return f"_checkpoints/spark_catalog/default/{flow}/{flow}"


def checkpoint(storage: Folder, path: str, *batches: int) -> None:
    storage.write(f"{path}/metadata", b'{"id":"1"}')
    for batch in batches:
        storage.write(f"{path}/offsets/{batch}", b"v1\n{}\n0")
        storage.write(f"{path}/commits/{batch}", b"v1\n{}")


@pytest.fixture
def storage(tmp_path: Path) -> Folder:
    folder = Folder.open(str(tmp_path / "storage"))
    for flow in FLOWS:
        checkpoint(folder, f"{folder_of(flow)}/0", 0, 1)
    return folder


def before() -> PipelineRecord:
    flows = {
        flow: FlowRecord(plan=query_plan(OLD, name=flow), folder=folder_of(flow), version=0, batch=1) for flow in FLOWS
    }
    return PipelineRecord(pipeline="flights", spark_version="4.3.0", flows=flows)


def after(storage: Folder) -> dict[str, FlowRecord]:
    """The flows with changed code, their new checkpoints made."""
    flows = dict(before().flows)
    for flow in FLOWS[:2]:
        made = records.staging_folder(folder_of(flow), 1)
        checkpoint(storage, made, 0, 1)
        storage.write(f"{made}/new", b"")
        flows[flow] = attrs.evolve(flows[flow], plan=query_plan(NEW, name=flow), version=1)
    return flows


def in_use(storage: Folder) -> dict[str, int]:
    return {flow: records.newest_version(storage, folder_of(flow)) for flow in FLOWS}


def leftovers(storage: Folder) -> list[str]:
    return [name for flow in FLOWS for name in storage.names(folder_of(flow)) if not name.isdecimal()]


def test_the_newest_version_is_the_one_that_spark_takes(storage: Folder) -> None:
    """SystemMetadata.getLatestCheckpointDir: the largest number, whatever else is there."""
    assert records.newest_version(storage, "_checkpoints/nothing") == -1
    for name in ("9", "10", "streamupdate-11", "x", "007x"):
        storage.write(f"flow/{name}/metadata", b"")
    assert records.newest_version(storage, "flow") == 10


def test_a_record_is_read_as_it_was_written(storage: Folder) -> None:
    assert records.read(storage) is None
    with pytest.raises(NotFoundError, match=r"no record of a pipeline in .*streamupdate pipeline adopt"):
        records.need(storage)
    records.write(storage, before())
    assert records.read(storage) == before()
    assert records.need(storage) == before()


def test_a_folder_that_leads_out_of_the_storage_is_refused(storage: Folder) -> None:
    """A record is a file, which somebody else may have written."""
    strange = FlowRecord(plan=query_plan(name="counts"), folder="../elsewhere", version=3)
    with pytest.raises(CorruptError):
        records.version_folder(strange.folder, strange.version)
    with pytest.raises(CorruptError):
        steps.complete_interrupted(
            storage,
            PipelineRecord(
                pipeline="p",
                spark_version="4.3.0",
                flows={"counts": strange},
                before={"counts": strange},
                phase=Phase.GOING_BACK,
            ),
        )


def test_checkpoints_are_carried_and_the_run_noted(storage: Folder) -> None:
    records.write(storage, before())
    record = steps.carry(storage, before(), after(storage))
    assert in_use(storage) == {"counts": 1, "late": 1, "same": 0}
    assert sorted(record.before) == ["counts", "late"]
    record = steps.begin(storage, record)
    assert records.need(storage).phase == Phase.RUNNING
    checkpoint(storage, f"{folder_of('counts')}/1", 2)
    assert not steps.can_go_back(storage, record)
    record = steps.write_idle(storage, record)
    assert records.need(storage) == record
    assert {n: (f.version, f.batch) for n, f in record.flows.items()} == {
        "counts": (1, 2),
        "late": (1, 1),
        "same": (0, 1),
    }
    assert (record.phase, record.before) == (Phase.IDLE, {})


def test_a_run_that_used_nothing_new_goes_back(storage: Folder) -> None:
    record = steps.begin(storage, steps.carry(storage, before(), after(storage)))
    checkpoint(storage, f"{folder_of('same')}/0", 2)  # a flow whose code is the same has gone on
    assert steps.can_go_back(storage, record)
    record = steps.go_back(storage, record)
    assert in_use(storage) == {"counts": 0, "late": 0, "same": 0}
    assert not leftovers(storage)
    assert record.flows["counts"] == attrs.evolve(before().flows["counts"], committed=1)
    assert record.flows["same"].batch == 2


def test_a_batch_that_was_only_logged_closes_the_way_back(storage: Folder) -> None:
    """Its rows may be in the sink."""
    record = steps.begin(storage, steps.carry(storage, before(), after(storage)))
    storage.write(f"{folder_of('late')}/1/offsets/2", b"v1\n{}\n0")
    assert not steps.can_go_back(storage, record)


def test_a_batch_in_flight_that_may_have_run_again_closes_the_way_back(storage: Folder) -> None:
    """It is in the new checkpoint's offset log from the beginning: to run it logs nothing."""
    storage.write(f"{folder_of('counts')}/0/offsets/2", b"v1\n{}\n0")
    old = before()
    old = attrs.evolve(old, flows={**old.flows, "counts": attrs.evolve(old.flows["counts"], batch=2)})
    flows = after(storage)
    storage.write(f"{records.staging_folder(folder_of('counts'), 1)}/offsets/2", b"v1\n{}\n0")
    flows["counts"] = attrs.evolve(flows["counts"], batch=2)
    record = steps.begin(storage, steps.carry(storage, old, flows))
    assert not steps.can_go_back(storage, record)


def test_flows_that_the_new_code_does_not_have_are_known_again_after_the_way_back(storage: Folder) -> None:
    flows = {name: flow for name, flow in before().flows.items() if name != "late"}
    record = steps.begin(storage, steps.carry(storage, before(), flows))
    assert list(record.before) == ["late"]
    assert steps.can_go_back(storage, record)
    record = steps.go_back(storage, record)
    assert record.flows == {name: attrs.evolve(flow, committed=1) for name, flow in before().flows.items()}
    assert in_use(storage)["late"] == 0


def test_a_flow_that_had_no_checkpoint_has_the_one_that_it_got(storage: Folder) -> None:
    flow = FlowRecord(plan=query_plan(name="new"), folder=folder_of("new"))
    record = steps.begin(storage, before(), {"new": flow})
    assert steps.expected_record(storage, record).flows.keys() == before().flows.keys()
    checkpoint(storage, f"{folder_of('new')}/0", 0)
    for settled in (steps.expected_record(storage, record), steps.complete_interrupted(storage, record)):
        found = settled.flows["new"]
        assert (found.version, found.batch, found.plan) == (0, 0, flow.plan)


class Died(Exception):
    """The process, at a write to the storage."""


class Dying:
    """Lets so many writes to storages through, and no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
        self.left = writes
        for name in ("write", "rename", "remove"):
            monkeypatch.setattr(Folder, name, self._counted(getattr(Folder, name)))

    def _counted(self, method: Callable[..., None]) -> Callable[..., None]:
        def counted(folder: Folder, *args: object, **more: object) -> None:
            if self.left <= 0:
                raise Died
            self.left -= 1
            method(folder, *args, **more)

        return counted


def attempts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[Folder], PipelineRecord],
    work: Callable[..., object],
) -> Iterator[tuple[Folder, bool]]:
    """A storage after the process died at each of its writes, one after the other; then after it went to its end."""
    for writes in range(100):
        place = tmp_path / str(writes)
        shutil.copytree(tmp_path / "storage", place)
        folder = Folder.open(str(place))
        record = made(folder)
        with monkeypatch.context() as patched:
            Dying(patched, writes)
            try:
                work(folder, record)
                died = False
            except Died:
                died = True
        yield folder, died
        if not died:
            return
    raise AssertionError("it never ends")


def settled(folder: Folder) -> int:
    """Return the version of `counts` that is in use once whoever comes next has settled it. The code that is recorded
    is that of the checkpoint that is used."""
    record = steps.complete_interrupted(folder, records.need(folder))
    used = in_use(folder)
    assert used in ({"counts": 0, "late": 0, "same": 0}, {"counts": 1, "late": 1, "same": 0})
    for name, flow in record.flows.items():
        assert flow.version == used[name]
        assert (flow.plan.stages[0] == NEW) == folder.exists(f"{folder_of(name)}/{used[name]}/new")
    assert (record.phase, records.need(folder)) == (Phase.IDLE, record)
    return used["counts"]


def test_whoever_comes_next_completes_a_change_that_died_at_any_write(
    storage: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(folder: Folder) -> PipelineRecord:
        records.write(folder, before())
        after(folder)
        return before()

    def work(folder: Folder, record: PipelineRecord) -> None:
        flows = dict(before().flows)
        for flow in FLOWS[:2]:
            flows[flow] = attrs.evolve(flows[flow], plan=query_plan(NEW, name=flow), version=1)
        steps.carry(folder, record, flows)

    seen = [settled(folder) for folder, _died in attempts(tmp_path, monkeypatch, made, work)]
    assert (seen[0], seen[-1]) == (0, 1)
    assert len(seen) == 4  # the record, and a checkpoint each


def test_whoever_comes_next_completes_the_way_back(
    storage: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(folder: Folder) -> PipelineRecord:
        return steps.begin(folder, steps.carry(folder, before(), after(folder)))

    seen = []
    for folder, _died in attempts(tmp_path, monkeypatch, made, steps.go_back):
        seen.append(settled(folder))
        assert seen[-1] or not leftovers(folder)
    assert (seen[0], seen[-1]) == (1, 0)
    assert len(seen) == 7  # two records, two names, two removals, and the end


def test_what_names_its_own_place_is_led_to_where_the_checkpoint_will_be(storage: Folder) -> None:
    """transformWithState's description of an operator, whatever scheme it gives the path."""
    made, final = (storage.sub(f"{folder_of('counts')}/{name}") for name in ("streamupdate-1", "1"))
    for scheme in ("file:", "file://", "hdfs://host:8020"):
        path = f"{scheme}{made.path()}/state/0/_stateSchema/default/0_x"
        made.write("state/0/_metadata/v2/2", f'v2\n{{"stateSchemaFilePaths":["{path}"]}}'.encode())
        rewrite_paths(made, final)
        told = (made.read("state/0/_metadata/v2/2") or b"").decode()
        assert f"{scheme}{final.path()}/state/0/_stateSchema/default/0_x" in told
        assert "streamupdate-1" not in told


def died_before_the_numbers(storage: Folder) -> PipelineRecord:
    flows = after(storage)
    changed = {name: before().flows[name] for name in FLOWS[:2]}
    record = attrs.evolve(before(), flows=flows, before=changed, phase=Phase.CARRYING)
    records.write(storage, record)
    return record


def test_what_ran_after_the_process_died_is_not_overwritten_by_older_state(storage: Folder) -> None:
    """By spark-pipelines, on the version before: with the new number, its batches would run again."""
    record = died_before_the_numbers(storage)
    checkpoint(storage, f"{folder_of('counts')}/0", 2)
    checkpoint(storage, f"{folder_of('same')}/0", 2)
    record = steps.complete_interrupted(storage, record)
    assert in_use(storage) == {"counts": 0, "late": 1, "same": 0}
    assert not leftovers(storage)
    assert record == records.need(storage)
    assert record.flows["counts"] == before().flows["counts"]  # not with the batch that nobody knows the code of
    assert record.flows["same"].batch == 1
    assert record.flows["late"].version == 1


def test_a_full_refresh_after_the_process_died_is_not_taken_for_the_carried_version(storage: Folder) -> None:
    record = died_before_the_numbers(storage)
    checkpoint(storage, f"{folder_of('counts')}/1", 0)
    record = steps.complete_interrupted(storage, record)
    assert in_use(storage) == {"counts": 1, "late": 1, "same": 0}
    assert record.flows["counts"] == before().flows["counts"]
    assert not leftovers(storage)


def test_a_batch_that_was_run_again_by_others_is_noticed(storage: Folder) -> None:
    """One that a run has left in flight is in the offset log already."""
    storage.write(f"{folder_of('same')}/0/offsets/2", b"v1\n{}\n0")
    flow = steps.write_idle(storage, before()).flows["same"]
    assert (flow.batch, flow.committed) == (2, 1)
    assert records.is_unchanged(storage, flow)
    storage.write(f"{folder_of('same')}/0/commits/2", b"v1\n{}")
    assert not records.is_unchanged(storage, flow)
    assert records.is_unchanged(storage, attrs.evolve(flow, committed=None))  # a record of an earlier version


def test_a_run_that_died_is_taken_for_what_it_logged(storage: Folder) -> None:
    record = attrs.evolve(before(), phase=Phase.RUNNING)
    records.write(storage, record)
    checkpoint(storage, f"{folder_of('same')}/0", 2, 3)
    assert steps.expected_record(storage, record).flows["same"].batch == 3
    assert records.need(storage) == record, "a check changes nothing"
    completed = steps.complete_interrupted(storage, record)
    assert completed.flows["same"].batch == 3 and steps.complete_interrupted(storage, completed) is completed
    assert steps.expected_record(storage, before()) == before()
    with pytest.raises(RefusedError, match=r"not complete.*pipeline run"):
        steps.expected_record(storage, died_before_the_numbers(storage))
