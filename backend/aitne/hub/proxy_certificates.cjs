// Loaded into the proxy before it starts: certificates whose files change are used without a restart,
// which would end all connections to sessions.
const fs = require("node:fs");
const https = require("node:https");

const CHECK_MS = 60_000;
const option = (name) => {
  const index = process.argv.indexOf(`--${name}`);
  return index < 0 ? null : process.argv[index + 1];
};
const serverFiles = { cert: option("ssl-cert"), key: option("ssl-key") };
const clientFiles = { cert: option("client-ssl-cert"), key: option("client-ssl-key") };
const servers = [];
let client = null;

const createServer = https.createServer;
https.createServer = function (options, ...more) {
  const server = createServer.call(this, options, ...more);
  servers.push([server, options]);
  return server;
};

// The proxy gives each request to a session the files as they were at its start.
const request = https.request;
https.request = function (options, ...more) {
  return request.call(this, client !== null && options.cert ? { ...options, ...client } : options, ...more);
};

const read = ({ cert, key }) => ({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) });

function reload() {
  try {
    if (serverFiles.cert !== null) {
      const files = read(serverFiles);
      for (const [server, options] of servers) server.setSecureContext({ ...options, ...files });
    }
    if (clientFiles.cert !== null) client = read(clientFiles);
  } catch (error) {
    // Key and certificate are replaced one after the other: the second change is seen, too.
    console.error(`Certificates are not used yet: ${error.message}`);
  }
}

const paths = [...Object.values(serverFiles), ...Object.values(clientFiles)].filter((path) => path !== null);
for (const path of paths) fs.watchFile(path, { interval: CHECK_MS, persistent: false }, reload);
process.on("SIGHUP", reload);
