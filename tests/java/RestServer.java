import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Iceberg's reference REST catalog on a SQLite file in a folder, for tests. Ends when its input ends.
 *
 * <p>The folder is the warehouse too, unless the input says otherwise: its first lines, up to an empty one, are
 * settings of Hadoop (fs.…) and properties of the catalog.
 */
public class RestServer {
  public static void main(String[] args) throws Exception {
    Configuration hadoop = new Configuration();
    Map<String, String> properties =
        new HashMap<>(
            Map.of(
                "uri", "jdbc:sqlite:" + args[0] + "/catalog.db",
                "warehouse", args[0],
                "jdbc.schema-version", "V1",
                "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"));
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) {
      String[] pair = line.split("=", 2);
      if (pair[0].startsWith("fs.")) {
        hadoop.set(pair[0], pair[1]);
      } else {
        properties.put(pair[0], pair[1]);
      }
    }
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.setConf(hadoop);
    catalog.initialize("rest", properties);
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
    server.setHandler(context);
    server.start();
    System.out.println("port " + ((ServerConnector) server.getConnectors()[0]).getLocalPort());
    while (input.read() >= 0) {}
    server.stop();
  }
}
