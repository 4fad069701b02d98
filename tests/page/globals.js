// What the page's modules ask of a browser, for tests without one.

import "fake-indexeddb/auto";

globalThis.addEventListener ??= () => {};
globalThis.document ??= { addEventListener: () => {}, hidden: false };
