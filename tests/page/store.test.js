// The browser's storage without a browser: kept, counted, forgotten, and lost.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./globals.js";

const { openStore, Store } = await import("../../contstim/experiment/page/store.js");

const row = (id, session, order) => ({ id, session, order, kind: "answer", body: {}, state: "waiting" });

test("sessions and rows are there for the next visit, in order", async () => {
  const first = await openStore();
  assert.equal(first.lasting, true);
  await first.keepSession({ key: "a", session: "s1" });
  await first.keepRow(row("r2", "s1", 2));
  await first.keepRow(row("r1", "s1", 1));
  await first.keepRow(row("other", "s2", 1));
  const next = await openStore();
  assert.equal((await next.session("a")).session, "s1");
  assert.deepEqual((await next.rows("s1")).map((one) => one.id), ["r1", "r2"]);
  await next.changeRows([{ ...row("r1", "s1", 1), state: "acknowledged" }]);
  assert.equal((await first.rows("s1"))[0].state, "acknowledged");
});

test("how often a trial was shown is counted across visits", async () => {
  const first = await openStore();
  assert.equal(await first.countShown("s3", "n1"), 1);
  assert.equal(await (await openStore()).countShown("s3", "n1"), 2);
  assert.equal(await first.countShown("s3", "n2"), 1);
});

test("what is dropped is gone, and nothing of other sessions", async () => {
  const store = await openStore();
  await store.keepRow(row("r5", "s5", 1));
  await store.keepRow(row("r50", "s50", 1));
  await store.countShown("s5", "n1");
  await store.countShown("s50", "n1");
  await store.dropRows("s5");
  assert.deepEqual(await store.rows("s5"), []);
  assert.equal((await store.rows("s50")).length, 1);
  assert.equal(await store.countShown("s5", "n1"), 1);
  assert.equal(await store.countShown("s50", "n1"), 2);
  await store.keepSession({ key: "b", session: "s5" });
  await store.dropSession("b");
  assert.equal(await store.session("b"), undefined);
});

test("without storage rows are kept in memory", async () => {
  const store = new Store(null);
  assert.equal(store.lasting, false);
  await store.keepRow(row("r1", "s1", 1));
  await store.keepSession({ key: "a", session: "s1" });
  assert.equal((await store.rows("s1")).length, 1);
  assert.equal((await store.sessions()).length, 1);
});

test("storage that is lost on the way is told once, and what was kept since stays", async () => {
  const database = {
    transaction: () => {
      throw new Error("the disk is full");
    },
  };
  const store = new Store(database);
  let told = 0;
  store.onloss = () => {
    told += 1;
  };
  await store.keepRow(row("r1", "s1", 1));
  await store.keepRow(row("r2", "s1", 2));
  assert.equal(told, 1);
  assert.equal(store.lasting, false);
  assert.deepEqual((await store.rows("s1")).map((one) => one.id), ["r1", "r2"]);
});
