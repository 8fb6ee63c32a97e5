"""The flights of each carrier, as a plain PySpark script: `spark-submit job.py IN OUT` runs it, too."""

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("input", help="folder of JSON files")
parser.add_argument("output", type=Path, help="folder for a JSON file a batch")
given = parser.parse_args()


def write(rows, batch_id):
    given.output.mkdir(exist_ok=True)
    file = given.output / f"{batch_id:05}.json"
    file.write_text(json.dumps([row.asDict() for row in rows.collect()]))


spark = SparkSession.builder.appName("carriers").getOrCreate()
flights = spark.readStream.schema("carrier string, dep_delay double").json(given.input)
counts = flights.groupBy("carrier").count().alias("by-carrier")
query = counts.writeStream.queryName("carriers").outputMode("update").foreachBatch(write).start()
query.awaitTermination()
