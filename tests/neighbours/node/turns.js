// A lock that programs in several languages share: its znodes have Curator's names.
"use strict";

const assert = require("node:assert");
const { randomUUID } = require("node:crypto");
const fs = require("node:fs");
const { setTimeout: pause } = require("node:timers/promises");
const { ask, connect, zookeeper } = require("./client.js");

const POLL_MS = 50;
const { CONNECTION_LOSS, NO_NODE } = zookeeper.Exception;

/** Take the lock again and again until the input ends, and write each time into the file when it is held. */
async function turns(server, directory, file, name) {
  const client = await connect(server);
  const session = client.getSessionId().toString("hex");
  const lock = new Lock(client, directory);
  let isOver = false;
  process.stdin.resume();
  process.stdin.on("end", () => (isOver = true));
  while (!isOver) {
    await lock.acquire();
    fs.appendFileSync(file, `${name} in\n`);
    await unlessLost(ask(client, "getData", directory)); // it takes a while
    fs.appendFileSync(file, `${name} out\n`);
    await lock.release();
    assert.strictEqual(client.getSessionId().toString("hex"), session);
  }
  client.close();
}

class Lock {
  constructor(client, directory) {
    this.client = client;
    this.directory = directory;
    this.prefix = `_c_${randomUUID()}-lock-`;
  }

  /** Whose turn it is is read from the listing, also after a lost answer. */
  async acquire() {
    for (;;) {
      const contenders = await this.contenders();
      if (contenders[0]?.startsWith(this.prefix)) {
        return;
      }
      if (contenders.some((each) => each.startsWith(this.prefix))) {
        await pause(POLL_MS);
      } else {
        const { EPHEMERAL_SEQUENTIAL } = zookeeper.CreateMode;
        const path = `${this.directory}/${this.prefix}`;
        await unlessLost(ask(this.client, "create", path, Buffer.alloc(0), EPHEMERAL_SEQUENTIAL));
      }
    }
  }

  async release() {
    let own;
    while ((own = (await this.contenders()).filter((each) => each.startsWith(this.prefix))).length) {
      for (const each of own) {
        await unlessLost(ask(this.client, "remove", `${this.directory}/${each}`, -1), NO_NODE);
      }
    }
  }

  /** Their names, the first comer's first. */
  async contenders() {
    const number = (name) => name.slice(name.lastIndexOf("-"));
    for (;;) {
      const found = await unlessLost(ask(this.client, "getChildren", this.directory, null));
      if (found) {
        return found[0].sort((one, other) => number(one).localeCompare(number(other)));
      }
    }
  }
}

/** The answer; nothing after a lost connection, or with that error. */
async function unlessLost(answer, allowed = CONNECTION_LOSS) {
  try {
    return await answer;
  } catch (error) {
    if (error.code !== CONNECTION_LOSS && error.code !== allowed) {
      throw error;
    }
    await pause(POLL_MS);
    return undefined;
  }
}

module.exports = { turns };
