// One tab at a time for each session.

/**
 * Take a session for this tab; it is free again when the tab is closed. If another tab has it,
 * `wait` is called with a promise that resolves when this one may go on.
 * @param {string} name
 * @param {(turn: Promise<boolean>) => Promise<void>} wait
 */
export async function takeTurn(name, wait) {
  // Missing on pages without TLS; the receiver keeps conflicting answers apart.
  if (!navigator.locks) return;
  /** @type {(options: LockOptions) => Promise<boolean>} */
  const request = (options) =>
    new Promise((settled) => {
      const hold = (/** @type {Lock | null} */ lock) => {
        settled(Boolean(lock));
        return lock ? new Promise(() => {}) : Promise.resolve();
      };
      navigator.locks.request(name, options, hold).catch(() => settled(true));
    });
  if (!(await request({ ifAvailable: true }))) await wait(request({}));
}
