// Attention checks by digests, and the regions of self-paced reading.

import assert from "node:assert/strict";
import { test } from "node:test";

import { failedChecks, fnv1a } from "../../contstim/experiment/page/checks.js";

test("the digest is that of its authors' test vectors", () => {
  assert.deepEqual(["", "a", "foobar"].map(fnv1a), [0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
});

test("only answers that fail a check are counted", () => {
  const failed = [1, 2, 3].map((choice) => fnv1a(`salt:n4:${choice}`));
  const checks = { failed, salt: "salt", from: 1, at_once: true };
  assert.equal(failedChecks(checks, new Map([["n4", -1], ["n5", 2]])), 0);
  assert.equal(failedChecks(checks, new Map([["n4", 2], ["n5", 2]])), 1);
});
