package streamupdate;

import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Local files without permissions: Hadoop would start a chmod for each, where its native library is missing. */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    private static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) {}
    }

    /** The same for FileContext. */
    public static class Context extends DelegateToFileSystem {
        public Context(URI uri, Configuration conf) throws Exception {
            super(uri, new LocalFiles(), conf, "file", false);
        }
    }
}
