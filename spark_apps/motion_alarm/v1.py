"""motion-alarm, version 1: an alarm for every motion in a room whose alarm is active.

Input: a folder of JSON-lines files, one event a line:
``{"room": "r1", "event": "activate", "ts": "2024-05-01T08:00:00.250Z"}``;
events are ``activate``, ``deactivate`` and ``motion``. Files arrive in the order of their events' times.

Output: one file ``alarms/batch=<id>.json`` a batch with JSON lines
``{"room": "r1", "ts": "2024-05-01T08:00:10.250Z"}``.
A batch that runs again replaces its file, so that every alarm is there once.

Parameters (``--set key=value``):
    input               folder the files arrive in
    output              folder the results go to (a path on the driver's machine)
    max_files           files a batch takes at most, default 4
    partitions          state partitions, default 2; fixed once the app has state
    interval            time from batch to batch, default "500 milliseconds"
"""

import json
import os
from datetime import datetime, timezone

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.streaming import StreamingApp, stage

SCHEMA = "room string, event string, ts timestamp"
ALARM = "room string, ts_ms bigint"
ROOM = "armed boolean, since_ms bigint"  # is the room's alarm active, and since when

app = StreamingApp("motion-alarm", require_names=True)


class Rooms(StatefulProcessor):
    """Keeps for each room whether its alarm is active and since when."""

    def init(self, handle):
        self.room = handle.getValueState("room", ROOM)

    def handleInputRows(self, key, rows, timerValues):
        armed, since = self.room.get() or (False, None)
        # Rows of a batch come in any order. Of events at one time, motion counts last.
        for event in sorted(rows, key=lambda row: (row.ts_ms, row.event)):
            if event.event == "activate" and not armed:
                armed, since = True, event.ts_ms
            elif event.event == "deactivate":
                armed, since = False, None
            elif event.event == "motion" and armed:
                yield Row(room=key[0], ts_ms=event.ts_ms)
        self.room.update((armed, since))

    def close(self):
        pass


@app.query("alarms", seen_batch="replaces")
def alarms(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", params.get("partitions", "2"))
    # transformWithState keeps its state in RocksDB only
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    events = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", params.get("max_files", "4"))
        .json(params["input"])
        # milliseconds since the epoch do not depend on any time zone setting
        .select("room", "event", F.unix_millis("ts").alias("ts_ms"))
    )
    rooms = stage("rooms", events.groupBy("room").transformWithState(Rooms(), ALARM, "Append", "None"))
    return (
        rooms.writeStream.outputMode("append")
        .trigger(processingTime=params.get("interval", "500 milliseconds"))
        .foreachBatch(to_files(os.path.join(params["output"], "alarms")))
    )


def to_files(folder):
    """A sink that writes one file a batch: complete or not at all, and replaced when the batch runs again."""

    def write(batch, batch_id):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"batch={batch_id}.json")
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            for row in batch.collect():
                ts = datetime.fromtimestamp(row.ts_ms / 1000, timezone.utc)
                line = {"room": row.room, "ts": ts.strftime("%Y-%m-%dT%H:%M:%S.") + f"{row.ts_ms % 1000:03}Z"}
                file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    return write


if __name__ == "__main__":
    app.main()
