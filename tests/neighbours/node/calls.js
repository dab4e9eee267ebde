// Each call of node-zookeeper-client.
"use strict";

const assert = require("node:assert");
const { ask, connect, zookeeper } = require("./client.js");

const DIRECTORIES = 10; // they are not all on one ensemble
const { CreateMode, Event, Exception } = zookeeper;

async function calls(server, root) {
  const client = await connect(server);
  await ask(client, "create", root);
  await values(client, `${root}/values`);
  await kinds(client, `${root}/kinds`);
  await watches(client, `${root}/watches`);
  await transactions(client, `${root}/transactions`);
  await identities(client, `${root}/identities`);
  await sessions(client, server, `${root}/sessions`);
  client.close();
}

/** See that a call ends with an error. */
async function fails(code, call) {
  await assert.rejects(call, (error) => error.code === code);
}

async function values(client, path) {
  assert.strictEqual(await ask(client, "create", path, Buffer.from("first")), path);
  await fails(Exception.NODE_EXISTS, ask(client, "create", path));
  await fails(Exception.NO_NODE, ask(client, "create", `${path}/no/child`));
  const [data, stat] = await ask(client, "getData", path);
  assert.deepStrictEqual([data.toString(), stat.version], ["first", 0]);
  assert.strictEqual((await ask(client, "setData", path, Buffer.from("second"), 0)).version, 1);
  await fails(Exception.BAD_VERSION, ask(client, "setData", path, Buffer.alloc(0), 0));
  assert.strictEqual((await ask(client, "exists", path)).dataLength, "second".length);
  assert.ok(!(await ask(client, "exists", `${path}/no`)));
  const names = [...Array(DIRECTORIES).keys()].map((number) => `d${number}`);
  for (const name of names) {
    await ask(client, "mkdirp", `${path}/${name}/child`);
  }
  const [children, itsStat] = await ask(client, "getChildren", path);
  assert.deepStrictEqual([children.sort(), itsStat.numChildren], [names, DIRECTORIES]);
  await fails(Exception.NOT_EMPTY, ask(client, "remove", `${path}/d0`, -1));
  for (const name of names) {
    await ask(client, "removeRecursive", `${path}/${name}`, -1); // it finds one level
  }
  await ask(client, "remove", path, -1);
  await fails(Exception.NO_NODE, ask(client, "remove", path, -1));
}

async function kinds(client, path) {
  await ask(client, "create", path);
  for (const number of [0, 1]) {
    const made = await ask(client, "create", `${path}/s-`, CreateMode.PERSISTENT_SEQUENTIAL);
    assert.strictEqual(made, `${path}/s-000000000${number}`);
  }
  const made = await ask(client, "create", `${path}/e`, CreateMode.EPHEMERAL);
  const stat = await ask(client, "exists", made);
  assert.deepStrictEqual(stat.ephemeralOwner, client.getSessionId());
  await fails(Exception.NO_CHILDREN_FOR_EPHEMERALS, ask(client, "create", `${made}/x`));
}

async function watches(client, path) {
  await expect(Event.NODE_CREATED, path, (left) => ask(client, "exists", path, left), () => ask(client, "create", path));
  const set = () => ask(client, "setData", path, Buffer.from("x"), -1);
  await expect(Event.NODE_DATA_CHANGED, path, (left) => ask(client, "getData", path, left), set);
  const add = () => ask(client, "create", `${path}/child`);
  await expect(Event.NODE_CHILDREN_CHANGED, path, (left) => ask(client, "getChildren", path, left), add);
  const remove = () => ask(client, "remove", `${path}/child`, -1);
  await expect(Event.NODE_DELETED, `${path}/child`, (left) => ask(client, "exists", `${path}/child`, left), remove);
}

/** Leave a watch, do something, and wait for the event. */
async function expect(type, path, leave, act) {
  let tell;
  const told = new Promise((resolve) => (tell = resolve));
  await leave(tell);
  await act();
  const event = await told;
  assert.deepStrictEqual([event.getType(), event.getPath()], [type, path]);
}

async function transactions(client, path) {
  await ask(client, "create", path);
  const whole = client.transaction().create(`${path}/a`).check(`${path}/a`, 0).setData(`${path}/a`, Buffer.from("1"), 0);
  await ask(whole, "commit");
  assert.strictEqual((await ask(client, "exists", `${path}/a`)).version, 1);
  await fails(Exception.BAD_VERSION, ask(client.transaction().remove(`${path}/a`, 7).create(`${path}/b`), "commit"));
  assert.ok(!(await ask(client, "exists", `${path}/b`)));
}

async function identities(client, path) {
  client.addAuthInfo("digest", Buffer.from("alice:secret"));
  await ask(client, "create", path);
  await ask(client, "setACL", path, zookeeper.ACL.CREATOR_ALL_ACL, -1);
  const [acls] = await ask(client, "getACL", path);
  assert.deepStrictEqual(acls.map((each) => [each.id.scheme, each.id.id.split(":")[0]]), [["digest", "alice"]]);
}

async function sessions(client, server, path) {
  await ask(client, "create", path);
  const other = await connect(server);
  await fails(Exception.NO_AUTH, ask(other, "getData", path.replace(/sessions$/, "identities")));
  await ask(other, "create", `${path}/e`, CreateMode.EPHEMERAL);
  await expect(
    Event.NODE_DELETED, `${path}/e`,
    (left) => ask(client, "exists", `${path}/e`, left),
    async () => other.close(),
  );
}

module.exports = { calls };
