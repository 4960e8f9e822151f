// Loaded into the proxy before it starts, where all sessions share one origin: a session's service
// worker stays below the session's own path, whatever the session's server allows it.
const { ServerResponse } = require("node:http");

const setHeader = ServerResponse.prototype.setHeader;
ServerResponse.prototype.setHeader = function (name, value) {
  return name.toLowerCase() === "service-worker-allowed" ? this : setHeader.call(this, name, value);
};
