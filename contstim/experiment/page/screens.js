// The screens other than trials. Each is shown at once and resolves when the participant goes on.

import { element, fill, linked, prose } from "./dom.js";

/**
 * @typedef {import("./types").Link} Link
 * @typedef {import("./types").Say} Say
 */

const FLASH_MS = 1500;

/** @param {string} id */
function part(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

export class Screens {
  #page = part("page");
  #place = this.#page;
  #bar = part("bar");
  #notice = part("notice");
  /** @type {string | null} */
  #shown = null;

  /**
   * Told of the name of each screen that is shown.
   * @type {(name: string) => void}
   */
  onshow = () => {};

  #recruiter;
  #transport;

  /**
   * @param {import("./types").Info} info
   * @param {import("./types").Transport} transport
   */
  constructor(info, transport) {
    this.#recruiter = info.recruiter;
    this.#transport = transport;
    this.texts = info.texts;
    this.#bar.classList.toggle("foot", info.settings.progress === "foot");
    const { lang, dir, title } = info.study;
    Object.assign(document.documentElement, { lang, dir });
    document.title = title;
    this.title = title;
  }

  /**
   * A link with the ids of this participant in its address, as the page's own address has them.
   * @template {Link} T
   * @param {T} link
   * @returns {T}
   */
  filled(link) {
    if (!link.redirect) return link;
    const { participant, parameters } = this.#transport;
    const redirect = link.redirect.replace(/\{(\w+)\}/g, (_, name) =>
      encodeURIComponent((name === "participant" ? participant : parameters.get(name)) ?? ""),
    );
    return { ...link, redirect };
  }

  /**
   * A text of the study with its braces filled in.
   * @type {Say}
   */
  say = (key, values) => fill(this.texts[key], values);

  /**
   * Show elements under a heading and move the reader there.
   * @param {string} name
   * @param {string} heading
   * @param {...(Element | null | (Element | null)[])} content
   */
  show(name, heading, ...content) {
    const title = element("h1", { tabindex: "-1", text: heading });
    const screen = element("section", { class: "screen", "data-screen": name });
    screen.append(title, ...content.flat().filter((one) => one !== null));
    this.#place.replaceChildren(screen);
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
    if (this.#shown !== name) this.onshow((this.#shown = name));
    return screen;
  }

  /**
   * Show what follows in `place`, the part of the page that jsPsych holds.
   * @param {HTMLElement | null} place
   */
  enter(place) {
    this.#shown = null;
    this.#place = place ?? this.#page;
  }

  /** Give jsPsych an empty page, and the page back to the screens afterwards. */
  clear() {
    this.enter(this.#page);
    this.#page.replaceChildren();
    return this.#page;
  }

  /**
   * @param {string} key
   * @param {(event: UIEvent) => void} onclick
   */
  button(key, onclick, kind = "") {
    return element("button", { type: "button", class: kind, onclick, text: this.say(key) });
  }

  /**
   * Show text and buttons; resolve with the name of the one that was chosen.
   * @param {string} name
   * @param {string} heading
   * @param {string} text
   * @param {Record<string, string>} buttons
   * @param {Element | null} more
   * @returns {Promise<string>}
   */
  ask(name, heading, text, buttons, more = null) {
    return new Promise((resolve) => {
      const made = Object.entries(buttons).map(([choice, key], place) =>
        this.button(key, () => resolve(choice), place ? "quiet" : "main"),
      );
      this.show(name, heading, prose(text), more, element("div", { class: "buttons" }, made));
    });
  }

  wait() {
    this.show("loading", this.title, element("p", { class: "wait", text: this.say("loading") }));
  }

  /**
   * Ask for consent; resolves with which boxes were ticked, or null if it is not given.
   * @param {import("./types").ConsentForm} form
   * @returns {Promise<Record<string, "yes" | "no"> | null>}
   */
  consent({ text, warning, boxes }) {
    return new Promise((resolve) => {
      const fields = boxes.map((box) => {
        const input = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox" }));
        const label = element("label", {}, input, element("span", {}, linked(box.text)));
        return { ...box, input, label };
      });
      const missing = element("p", { class: "missing", role: "alert" });
      const agree = () => {
        const left = fields.find((one) => one.required && !one.input.checked);
        if (left) {
          missing.textContent = this.say("consent_boxes");
          left.input.focus();
          return;
        }
        const ticked = fields.map(({ name, input }) => [name, input.checked ? "yes" : "no"]);
        resolve(Object.fromEntries(ticked));
      };
      const buttons = [
        this.button("consent_agree", agree, "main"),
        this.button("consent_decline", () => resolve(null), "quiet"),
      ];
      const group = fields.length ? element("div", { class: "boxes" }) : null;
      group?.append(...fields.map(({ label }) => label), missing);
      const below = element("div", { class: "buttons" }, buttons);
      const first = warning ? element("p", { class: "warning", role: "note", text: warning }) : null;
      this.show("consent", this.say("consent_title"), first, prose(text), group, below);
    });
  }

  /**
   * Whether to go on with the session that this browser has, or begin one for somebody else.
   * @param {Record<string, unknown>} values
   * @param {boolean} mayBeAnother
   */
  async resume(values, mayBeAnother) {
    /** @type {Record<string, string>} */
    const buttons = { resume: "resume_button" };
    if (mayBeAnother) buttons.another = "another_person_button";
    const text = this.say("resume_text", values);
    return (await this.ask("resume", this.say("resume_title"), text, buttons)) === "resume";
  }

  /** The device is not one that the study admits; loaded again, the page looks again. */
  device() {
    const again = this.button("reload_button", () => location.reload(), "main");
    const text = prose(this.say("device_text"));
    this.show("device", this.say("device_title"), text, element("div", { class: "buttons" }, again));
  }

  /** Nothing would arrive of what is answered; loaded again, the page looks again. */
  unreachable() {
    const again = this.button("try_again_button", () => location.reload(), "main");
    const text = prose(this.say("unreachable_text"));
    const buttons = element("div", { class: "buttons" }, again);
    this.show("unreachable", this.say("unreachable_title"), text, buttons);
  }

  /** @param {Promise<unknown>} moved */
  async whileElsewhere(moved) {
    this.show("other_tab", this.title, prose(this.say("other_tab")));
    await moved;
  }

  finishing() {
    const text = prose(this.say("finishing_text"));
    const busy = element("progress", { "aria-label": this.say("saving") });
    this.show("finishing", this.say("finishing_title"), text, busy);
  }

  /**
   * The answers do not arrive, or are refused for a `reason`; `link` has a code if one may be shown
   * all the same.
   * @param {number} count
   * @param {string | null} reason
   * @param {Link} link
   * @param {() => void} download
   * @param {() => void} again
   */
  unsent(count, reason, link, download, again) {
    const why = reason ? `\n\n${this.say("refused", { reason })}` : "";
    const text = prose(`${this.say("unsent_text", { count })}${why}`);
    const buttons = [
      this.button("try_again_button", again, "main"),
      this.button("download_button", download),
    ];
    this.show(
      "unsent",
      this.say("unsent_title"),
      text,
      element("div", { class: "buttons" }, buttons),
      this.#code(link.code),
    );
  }

  /**
   * Nothing is sent anywhere: resolves when the participant has saved the file.
   * @param {() => void} download
   */
  async save(download) {
    /** @type {Promise<void>} */
    const chosen = new Promise((resolve) => {
      const save = () => {
        download();
        resolve();
      };
      this.show(
        "save",
        this.say("save_title"),
        prose(this.say("save_text")),
        element("div", { class: "buttons" }, this.button("download_button", save, "main")),
      );
    });
    await chosen;
  }

  /**
   * The end: what it is, the code, the way back. `outcome` is `complete` or one of those that have
   * a title and a text of their own. `download` saves the data once more. Resolves when somebody
   * else wants to begin, which `another` allows.
   * @param {import("./types").End} end
   * @param {(() => void) | null} download
   * @param {boolean} another
   */
  end(
    { outcome = "complete", code = null, redirect = null, session = null },
    download = null,
    another = false,
  ) {
    /** @type {Element[]} */
    const buttons = [];
    if (download) buttons.push(this.button("download_button", download));
    return new Promise((resolve) => {
      if (another) buttons.push(this.button("another_person_button", resolve, "quiet"));
      const complete = outcome === "complete";
      const [name, key] = complete ? ["done", "debrief"] : [outcome, outcome];
      this.#end(name, key, this.filled({ code, redirect, session }), buttons);
    });
  }

  /**
   * @param {string} name
   * @param {string} key
   * @param {import("./types").End} link
   * @param {Element[]} buttons
   */
  #end(name, key, link, buttons) {
    const recruiter = this.#recruiter?.title ?? "";
    if (link.redirect) {
      const attributes = { class: "button main", href: link.redirect, rel: "noreferrer" };
      const text = this.say("return_button", { recruiter });
      buttons.unshift(element("a", { ...attributes, text }));
    }
    this.show(
      name,
      this.say(`${key}_title`),
      prose(this.say(`${key}_text`)),
      this.#code(link.code),
      prose(this.say(link.redirect ? "return_text" : "close_text", { recruiter })),
      buttons.length ? element("div", { class: "buttons" }, buttons) : null,
      link.session ? this.#dataCode(link.session) : null,
    );
  }

  /**
   * By what the participant's data can be named, as `contstim experiment forget` reads it.
   * @param {string} session
   */
  #dataCode(session) {
    const code = session.replaceAll("-", "").slice(0, 8).toUpperCase();
    return element("p", { class: "soft", text: this.say("data_code_text", { code }) });
  }

  /** @param {string | null | undefined} code */
  #code(code) {
    if (!code) return null;
    const status = element("span", { role: "status" });
    const value = element("output", { text: code, dir: "ltr" });
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(code);
        status.textContent = this.say("code_copied");
      } catch {
        // Refused, or a page without TLS: mark it, so that one key copies it.
        getSelection()?.selectAllChildren(value);
      }
    };
    return element(
      "div",
      { class: "code" },
      element("p", { text: this.say("code_label") }),
      value,
      this.button("code_copy", copy),
      status,
    );
  }

  /** @param {string} message */
  error(message) {
    const again = this.button("reload_button", () => location.reload(), "main");
    this.show(
      "error",
      this.say("error_title"),
      prose(this.say("error_text")),
      element("p", { class: "message", dir: "ltr", text: message }),
      element("div", { class: "buttons" }, again),
    );
  }

  /**
   * Show how far the session is, from the number of trials done.
   * @param {number} number
   * @param {number} total
   */
  progress(number, total) {
    this.#bar.hidden = false;
    this.#bar.replaceChildren(
      element("progress", { value: number, max: total, "aria-label": this.say("progress_label") }),
      element("span", { class: "count", text: this.say("progress", { number, total }) }),
    );
  }

  hideProgress() {
    this.#bar.hidden = true;
  }

  #lasting = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #moment = undefined; // the timer of what is said for a moment

  /**
   * Say something at the foot of the page for a moment, whatever is said there otherwise.
   * @param {string} text
   */
  flash(text, duration = FLASH_MS) {
    clearTimeout(this.#moment);
    this.#say(text);
    this.#moment = setTimeout(() => {
      this.#moment = undefined;
      this.#say(this.#lasting);
    }, duration);
  }

  /**
   * Say something lasting at the foot of the page; an empty text takes it away.
   * @param {string} text
   */
  notice(text) {
    this.#lasting = text;
    // What matters is said at once; that nothing is the matter can wait.
    if (text || this.#moment === undefined) {
      clearTimeout(this.#moment);
      this.#moment = undefined;
      this.#say(text);
    }
  }

  /** @param {string} text */
  #say(text) {
    if (this.#notice.textContent !== text) this.#notice.textContent = text;
  }
}
