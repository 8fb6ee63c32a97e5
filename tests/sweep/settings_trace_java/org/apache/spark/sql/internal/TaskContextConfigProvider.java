package org.apache.spark.sql.internal;

import org.apache.spark.TaskContext;
import org.apache.spark.internal.config.ConfigProvider;
import org.apache.spark.internal.config.MapProvider;
import scala.Option;

/** In place of Spark's class of that name, which does the same: notes each key that a task reads. */
public class TaskContextConfigProvider implements ConfigProvider {
  private final TaskContext context;

  public TaskContextConfigProvider(TaskContext context) {
    this.context = context;
  }

  @Override
  public Option<String> get(String key) {
    MapProvider.READ.add(key);
    return Option.apply(context.getLocalProperty(key));
  }
}
