// Promises in place of callbacks.
"use strict";

const zookeeper = require("node-zookeeper-client");

const SESSION_TIMEOUT_MS = 180_000;

/** A client that has a session. The process ends with 1 when that expires. */
function connect(server) {
  const client = zookeeper.createClient(server, { sessionTimeout: SESSION_TIMEOUT_MS, spinDelay: 100 });
  client.on("expired", () => {
    console.log("its session has expired");
    process.exit(1);
  });
  return new Promise((resolve) => {
    client.once("connected", () => resolve(client));
    client.connect();
  });
}

/** What a method's callback gets behind the error: one value, or a list of them. */
function ask(client, method, ...rest) {
  return new Promise((resolve, reject) => {
    client[method](...rest, (error, ...found) => {
      if (error) {
        reject(error);
      } else {
        resolve(found.length > 1 ? found : found[0]);
      }
    });
  });
}

module.exports = { ask, connect, zookeeper };
