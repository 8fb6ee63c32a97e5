package org.apache.spark.internal.config;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import scala.Option;

/** In place of Spark's class of that name, which does the same: notes each key that is read. See tests/sweep/settings_trace.py. */
public class MapProvider implements ConfigProvider {
  public static final Set<String> READ = ConcurrentHashMap.newKeySet();
  private final Map<String, String> conf;

  public MapProvider(Map<String, String> conf) {
    this.conf = conf;
  }

  /** The keys read since the last call, one a line. */
  public static String drain() {
    String keys = String.join("\n", READ);
    READ.clear();
    return keys;
  }

  @Override
  public Option<String> get(String key) {
    READ.add(key);
    return Option.apply(conf.get(key));
  }
}
