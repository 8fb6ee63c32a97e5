import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS with one datanode and YARN with one node manager, until it is killed. Argument: the folder for its files; the
 * configuration for clients is written into conf/ there. */
public class MiniCluster {
  public static void main(String[] args) throws Exception {
    try {
      run(new File(args[0]));
    } catch (Throwable error) {
      error.printStackTrace();
      System.exit(1); // the threads of what has started would go on
    }
  }

  private static void run(File folder) throws Exception {
    Configuration conf = new YarnConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(folder, "dfs").getPath());
    conf.set("yarn.resourcemanager.bind-host", "localhost");
    // there is no capacity-scheduler.xml in the jar
    String queue = "yarn.scheduler.capacity.root.default.";
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.setInt(queue + "capacity", 100);
    conf.setInt(queue + "maximum-capacity", 100);
    conf.setFloat(queue + "user-limit-factor", 1);
    conf.set(queue + "state", "RUNNING");
    conf.set(queue + "acl_submit_applications", "*");
    conf.set(queue + "acl_administer_queue", "*");
    // two drivers at once
    conf.setFloat("yarn.scheduler.capacity.maximum-am-resource-percent", 1);
    conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
    conf.setInt(YarnConfiguration.YARN_MINICLUSTER_NM_PMEM_MB, 12 * 1024);
    conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);

    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    hdfs.waitActive();
    MiniYARNCluster yarn = new MiniYARNCluster("yarn", 1, 1, 1);
    yarn.init(conf);
    yarn.start();
    if (!yarn.waitForNodeManagersToConnect(60_000)) {
      throw new IllegalStateException("no node manager came");
    }

    Configuration clients = new Configuration(false); // the rest names classes that clients do not have
    for (Map.Entry<String, String> each : yarn.getConfig()) {
      if (each.getKey().startsWith("yarn.")) {
        clients.set(each.getKey(), each.getValue());
      }
    }
    clients.set("fs.defaultFS", hdfs.getURI().toString());
    File written = new File(folder, "conf");
    written.mkdirs();
    for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {
      try (OutputStream out = new FileOutputStream(new File(written, name))) {
        clients.writeXml(out);
      }
    }
    System.out.println("Cluster started: webhdfs://localhost:" + hdfs.getNameNode().getHttpAddress().getPort());
    Thread.currentThread().join();
  }
}
