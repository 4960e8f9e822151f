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

// Browsers have the origin by https: they never ask for it in another way again.
if (process.env.AITNE_PROXY_HTTPS === "1") {
  const writeHead = ServerResponse.prototype.writeHead;
  ServerResponse.prototype.writeHead = function (...args) {
    if (!this.headersSent) {
      this.setHeader("Strict-Transport-Security", "max-age=31536000");
    }
    return writeHead.apply(this, args);
  };
}
