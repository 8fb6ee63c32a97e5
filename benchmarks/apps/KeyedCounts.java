import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Keyed counts in Flink, of the same files as counts.py reads: what pause.py updates beside ours.
 *
 * <p>Arguments: the input folder, a folder for the moments of output, the version. Each subtask of the last operator
 * writes a line to moments/VERSION-SUBTASK for an output, not more often than once a millisecond: seconds since the
 * epoch, and how many outputs there have been.
 */
public final class KeyedCounts {
    private static final Duration LOOK = Duration.ofMillis(50); // for new files; a part of Flink's pause

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        FileSource<String> source =
                FileSource.forRecordStreamFormat(new TextLineInputFormat(), Path.fromLocalFile(new File(args[0])))
                        .monitorContinuously(LOOK)
                        .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "input")
                .uid("input")
                .map(line -> Long.parseLong(line.substring(5, line.length() - 1))) // {"k":123}
                .returns(Types.LONG)
                .uid("key")
                .keyBy(key -> key, Types.LONG)
                .process(new Count())
                .uid("totals")
                .process(new Moments(args[1], args[2]))
                .uid("moments")
                .sinkTo(new DiscardingSink<>())
                .uid("sink");
        env.execute("counts " + args[2]);
    }

    private static final class Count extends KeyedProcessFunction<Long, Long, Long> {
        private transient ValueState<Long> total;

        @Override
        public void open(OpenContext context) {
            total = getRuntimeContext().getState(new ValueStateDescriptor<>("n", Types.LONG));
        }

        @Override
        public void processElement(Long key, Context context, Collector<Long> out) throws IOException {
            Long before = total.value();
            long now = before == null ? 1 : before + 1;
            total.update(now);
            out.collect(now);
        }
    }

    private static final class Moments extends ProcessFunction<Long, Long> {
        private final String folder;
        private final String version;
        private transient FileWriter file;
        private transient long last;
        private transient long count;

        private Moments(String folder, String version) {
            this.folder = folder;
            this.version = version;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            file = new FileWriter(new File(folder, version + "-" + subtask), true);
        }

        @Override
        public void processElement(Long total, Context context, Collector<Long> out) throws IOException {
            count++;
            if (System.nanoTime() - last >= 1_000_000) {
                Instant now = Instant.now();
                file.write(String.format("%d.%06d %d%n", now.getEpochSecond(), now.getNano() / 1000, count));
                file.flush();
                last = System.nanoTime();
            }
            out.collect(total);
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
