package streamupdate;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Local files without permissions: Hadoop would start a chmod for each, and a readlink to rename one, where its native
 * library is missing.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    /** Without checksum files as well. */
    public static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) {}

        /** Hadoop starts a readlink for each file that is renamed, to see whether it is a link. */
        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            return Files.isSymbolicLink(pathToFile(path).toPath()) ? super.getFileLinkStatus(path) : getFileStatus(path);
        }
    }

    /** The same for FileContext. */
    public static class Context extends DelegateToFileSystem {
        public Context(URI uri, Configuration conf) throws Exception {
            super(uri, new LocalFiles(), conf, "file", false);
        }
    }
}
