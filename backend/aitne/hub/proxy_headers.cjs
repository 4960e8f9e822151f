// Loaded into the proxy before it starts: headers of all answers that come from the sessions' origin.
const { ServerResponse } = require("node:http");

// All sessions share one origin: a session's service worker stays below the session's own path,
// whatever the session's server allows it.
if (process.env.AITNE_PROXY_SHARED_ORIGIN === "1") {
  const setHeader = ServerResponse.prototype.setHeader;
  ServerResponse.prototype.setHeader = function (name, value) {
    return name.toLowerCase() === "service-worker-allowed" ? this : setHeader.call(this, name, value);
  };
}

// Browsers ask for an origin with https in no other way again, whatever a session says.
const hsts = process.env.AITNE_PROXY_HSTS;
if (hsts) {
  const writeHead = ServerResponse.prototype.writeHead;
  ServerResponse.prototype.writeHead = function (...args) {
    if (!this.headersSent) {
      this.setHeader("Strict-Transport-Security", hsts);
    }
    return writeHead.apply(this, args);
  };
}
