// The page's beginning: which way the data go, what the study is, and then a session.

import { loadPresentation } from "./presentations.js";
import { Screens } from "./screens.js";
import { Session } from "./session.js";
import { openStore } from "./store.js";
import { Final, persist } from "./transports/errors.js";
import { JatosTransport } from "./transports/jatos.js";
import { ServerTransport } from "./transports/server.js";
import { StaticTransport } from "./transports/static.js";

/** @type {Record<string, () => import("./types").Transport>} */
const TRANSPORTS = {
  server: () => new ServerTransport(new URLSearchParams(location.search)),
  static: () => new StaticTransport(new URLSearchParams(location.search)),
  jatos: () => new JatosTransport(window.jatos),
};

async function main() {
  const meta = document.querySelector('meta[name="contstim-transport"]');
  const transport = TRANSPORTS[meta?.getAttribute("content") ?? "server"]();
  const info = await persist(() => transport.open());
  const screens = new Screens(info, transport);
  try {
    const presentation = await loadPresentation(info.settings.presentation.module);
    await new Session(transport, await openStore(), screens, info, presentation).run();
  } catch (error) {
    screens.error(error instanceof Error ? error.message : String(error));
    if (!(error instanceof Final)) throw error;
  }
}

main();
