// Attention checks where no server of ours reads the answers: the page has digests of the answers
// that fail one. They name no trial, but whoever tries all choices of all trials finds the checks.

/**
 * The 32-bit FNV-1a digest of a text's UTF-8 bytes (Fowler, Noll & Vo).
 * @param {string} text
 */
export function fnv1a(text) {
  let digest = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    digest = Math.imul(digest ^ byte, 0x01000193);
  }
  return digest >>> 0;
}

/**
 * How many attention checks were failed, of each trial its first answer.
 * @param {import("./types").Checks} checks
 * @param {Map<string, number>} choices by trial
 */
export function failedChecks({ failed, salt }, choices) {
  const failing = new Set(failed);
  const given = [...choices].map(([trial, choice]) => fnv1a(`${salt}:${trial}:${choice}`));
  return given.filter((digest) => failing.has(digest)).length;
}
