// The outbox without a browser: nothing lost, nothing doubled, whatever the receiver does.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./globals.js";

const { Outbox } = await import("../../contstim/experiment/page/outbox.js");
const { openStore } = await import("../../contstim/experiment/page/store.js");
const { Final, Passing } = await import("../../contstim/experiment/page/transports/errors.js");

let sessions = 0;

/** A session that nobody else has, and a transport whose `send` is given. */
function situation(send, more = {}) {
  sessions += 1;
  const session = { session: `session-${sessions}` };
  const transport = { batch: 1, largest: 3, collects: true, mixed: false, send, ...more };
  return { session, transport };
}

const accept = async (_, rows) => ({ acknowledged: rows.map((row) => row.id), refused: [] });
const answer = (number, more = {}) => ({ id: `answer-${sessions}-${number}`, trial: `n${number}`, choice: -2, ...more });

async function opened({ session, transport }) {
  const store = await openStore();
  const outbox = new Outbox(store, transport, session);
  await outbox.open();
  return { store, outbox };
}

test("what is kept is sent once, in order, no more than may go together", async () => {
  const batches = [];
  const given = situation((session, rows) => {
    batches.push(rows.map((row) => row.body.trial));
    return accept(session, rows);
  });
  const { outbox } = await opened(given);
  for (let number = 1; number <= 7; number += 1) await outbox.keep("answer", answer(number));
  assert.equal(await outbox.flush(2000), true);
  assert.deepEqual(batches.flat(), ["n1", "n2", "n3", "n4", "n5", "n6", "n7"]);
  assert.ok(batches.every((batch) => batch.length <= 3));
  outbox.close();
});

test("answers that a lost reply leaves open are sent again, and nothing twice after that", async () => {
  const received = new Map();
  let calls = 0;
  const given = situation((session, rows) => {
    calls += 1;
    for (const row of rows) received.set(row.id, (received.get(row.id) ?? 0) + 1);
    if (calls === 1) throw new Passing("the reply was lost");
    return accept(session, rows);
  });
  const { outbox } = await opened(given);
  await outbox.keep("answer", answer(1));
  assert.equal(outbox.waiting, 1);
  assert.equal(await outbox.flush(5000), true);
  assert.deepEqual([...received.values()], [2]);
  assert.equal(outbox.failing, null);
  outbox.close();
});

test("what an earlier visit left is sent by the next", async () => {
  const given = situation(async () => {
    throw new Passing("no connection");
  });
  const before = await opened(given);
  await before.outbox.keep("answer", answer(1));
  await before.outbox.keep("event", { id: `event-${sessions}`, kind: "blur" });
  before.outbox.close();
  const sent = [];
  given.transport.send = (session, rows) => {
    sent.push(...rows.map((row) => row.kind));
    return accept(session, rows);
  };
  const after = await opened(given);
  assert.equal(await after.outbox.flush(2000), true);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(sent, ["answer", "event"]); // answers first
  assert.equal(after.outbox.answered.get("n1"), -2);
  after.outbox.close();
});

test("what is refused stays here, and the others go on", async () => {
  const given = situation(async (_, rows) => ({
    acknowledged: rows.slice(1).map((row) => row.id),
    refused: [rows[0].id],
  }));
  given.transport.batch = 2;
  const { store, outbox } = await opened(given);
  await outbox.keep("answer", answer(1));
  await outbox.keep("answer", answer(2));
  assert.equal(await outbox.flush(2000), true);
  assert.equal(outbox.refused, 1);
  const states = (await store.rows(given.session.session)).map((row) => row.state);
  assert.deepEqual(states, ["refused", "acknowledged"]);
  outbox.close();
});

test("a receiver that ends the session is asked no more", async () => {
  let calls = 0;
  const given = situation(async () => {
    calls += 1;
    throw new Final("there is no such session", 401);
  });
  const { outbox } = await opened(given);
  await outbox.keep("answer", answer(1));
  assert.equal(await outbox.flush(2000), false);
  await outbox.keep("answer", answer(2));
  assert.equal(calls, 1);
  assert.equal(outbox.ended.status, 401);
  assert.equal(outbox.waiting, 2);
});

test("rows that go as one file keep their company until they have arrived", async () => {
  const files = [];
  const given = situation(
    async (session, rows) => {
      files.push(rows.map((row) => row.id));
      if (files.length === 1) throw new Passing("upload error");
      return accept(session, rows);
    },
    { mixed: true, batch: 2, largest: 2 },
  );
  const { outbox } = await opened(given);
  await outbox.keep("event", { id: `event-${sessions}-1`, kind: "focus" });
  await outbox.keep("answer", answer(1));
  await outbox.keep("answer", answer(2));
  assert.equal(await outbox.flush(5000), true);
  assert.deepEqual(files[0], files[1]);
  assert.equal(files.length, 3);
  outbox.close();
});

test("the first answer to a trial counts, and what the receiver lacks is sent again", async () => {
  const sent = [];
  const given = situation((session, rows) => {
    sent.push(...rows.map((row) => row.id));
    return accept(session, rows);
  });
  const { outbox } = await opened(given);
  await outbox.keep("answer", answer(1));
  await outbox.keep("answer", { ...answer(1, { choice: 3 }), id: `again-${sessions}` });
  assert.equal(outbox.answered.get("n1"), -2);
  assert.equal(await outbox.flush(2000), true);
  await outbox.resend(new Set(["n1"]));
  assert.equal(await outbox.flush(2000), true);
  assert.equal(sent.length, 4);
  outbox.close();
});

test("answers to questions that the receiver lacks are sent again; refused ones are asked anew", async () => {
  const sent = [];
  const given = situation(async (_, rows) => {
    sent.push(...rows.map((row) => row.body.detail));
    const refused = rows.filter((row) => row.body.detail.includes("odd")).map((row) => row.id);
    const acknowledged = rows.map((row) => row.id).filter((id) => !refused.includes(id));
    return { acknowledged, refused };
  });
  const { outbox } = await opened(given);
  for (const name of ["native", "odd", "age"]) {
    const detail = JSON.stringify({ responses: { [name]: "yes" }, rt_ms: 5 });
    await outbox.keep("event", { id: `${name}-${sessions}`, kind: "responses", at: "", detail });
  }
  assert.equal(await outbox.flush(2000), true);
  assert.deepEqual([...outbox.responded], ["native", "age"]);
  await outbox.resend(new Set(), new Set(["native", "odd"]));
  assert.equal(await outbox.flush(2000), true);
  assert.equal(sent.length, 4);
  assert.ok(sent.at(-1).includes("native"));
  outbox.close();
});
