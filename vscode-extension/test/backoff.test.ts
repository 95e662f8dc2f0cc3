import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "../src/backoff";

test("five restarts in three minutes, each twice as late, then none", () => {
  const backoff = new Backoff();
  const delays = [0, 1, 2, 3, 4, 5].map((second) => backoff.next(second * 1000));
  assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16000, undefined]);
});

test("restarts older than three minutes are forgotten", () => {
  const backoff = new Backoff();
  for (const second of [0, 1, 2, 3, 4]) {
    backoff.next(second * 1000);
  }
  assert.equal(backoff.next(179_999), undefined);
  assert.equal(backoff.next(181_500), 8000);
});

test("a restart by the user starts a clean record", () => {
  const backoff = new Backoff();
  backoff.next(0);
  backoff.reset();
  assert.equal(backoff.next(1), 1000);
});
