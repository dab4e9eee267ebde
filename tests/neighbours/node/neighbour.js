// A program in JavaScript on node-zookeeper-client, at a server or a gateway. It checks what it gets, and ends with 1
// if that is wrong.
"use strict";

const assert = require("node:assert");
const { calls } = require("./calls.js");
const { turns } = require("./turns.js");

async function main(mode, ...rest) {
  if (mode === "calls" && rest.length === 2) {
    await calls(...rest);
  } else if (mode === "turns" && rest.length === 4) {
    await turns(...rest);
  } else {
    assert.fail("calls HOST:PORT ROOT, or turns HOST:PORT DIRECTORY FILE NAME");
  }
}

main(...process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.log(error);
    process.exit(1);
  },
);
