// What presentations share: a screen whose buttons or keys give one answer, and its time.

import { element } from "../dom.js";

/**
 * @typedef {import("../types").Answered} Answered
 * @typedef {import("../types").Tools} Tools
 */

const MARK_MS = 120; // the button that was chosen is marked so long
const STACKED = matchMedia("(max-width: 40rem)"); // as in the style sheet

/** Whether the window is so narrow that what else stands side by side stands one above the other. */
export const isStacked = () => STACKED.matches;

/**
 * The button, from 0, that a key stands for, or -1 if it is none of so many.
 * @param {KeyboardEvent} event
 * @param {number} count
 */
export function placeOfKey(event, count) {
  if (event.ctrlKey || event.altKey || event.metaKey) return -1;
  // The code is the place on the keyboard: layouts may write other signs with the digits' keys.
  const [, digit] = /^(?:Digit|Numpad)([1-9])$/.exec(event.code) ?? [];
  const number = Number(digit ?? (/^[1-9]$/.test(event.key) && !event.code ? event.key : 0));
  return number <= count ? number - 1 : -1;
}

/**
 * What an answer was given with.
 * @param {UIEvent} event
 */
export function inputOf(event) {
  if (event.type === "keydown") return "key";
  const pointer = event instanceof PointerEvent ? event.pointerType : "";
  // Enter, Space and screen readers click without a pointer.
  if (!pointer) return event.detail === 0 ? "key" : "mouse";
  return ["mouse", "touch", "pen"].includes(pointer) ? pointer : "unknown";
}

/**
 * The question of a trial, with what is said before it.
 * @param {Tools} tools
 * @param {string} [text]
 */
export function heading({ say, label, labelled }, text = say("trial_prompt")) {
  const made = element("h1", { tabindex: "-1", class: "prompt" });
  if (labelled) made.append(element("span", { class: "tag", text: label }));
  else if (label) made.append(element("span", { class: "unseen", text: `${label}. ` }));
  made.append(text);
  return made;
}

/**
 * A button with its key; `choose` is told of clicks, and without it the button is a picture.
 * @param {{choice: number, number: number, text: string, label: string, direction: string}} what
 * @param {((choice: number, event: UIEvent, button: Element) => void) | null} choose
 */
export function answerButton({ choice, number, text, label, direction }, choose) {
  const button = element(
    "button",
    {
      type: "button",
      class: "answer",
      dir: direction,
      disabled: !choose,
      "aria-label": label,
      "aria-keyshortcuts": String(number),
      // Shown by the style sheet: screen readers say the label and the shortcut.
      "data-key": String(number),
      "data-choice": String(choice),
    },
    element("span", { text }),
  );
  const clicked = (/** @type {UIEvent} */ event) => choose?.(choice, event, button);
  if (choose) button.addEventListener("click", clicked);
  return button;
}

/**
 * The time at which what was just drawn is seen: that of its first frame; a hidden page has none.
 * @returns {() => number}
 */
export function seen() {
  let at = performance.now();
  requestAnimationFrame((time) => {
    at = Math.max(at, time);
  });
  return () => at;
}

/**
 * Show a screen with buttons and resolve with the answer that one of them, or its key, gives.
 *
 * @param {Element} display
 * @param {Tools} tools
 * @param {HTMLElement} title
 * @param {(choose: (choice: number, event: UIEvent, button: Element) => void) => (Element | null)[]} draw
 *   Makes what stands below the title; it is asked again when the layout changes.
 * @returns {Promise<Answered>}
 */
export function answerOf(display, { settings }, title, draw) {
  return new Promise((resolve) => {
    const screen = element("div", { class: "trial", "data-screen": "trial" });
    let answered = false;
    let shownAt = () => performance.now();

    /** @type {(choice: number, event: UIEvent, button: Element) => void} */
    const choose = (choice, event, button) => {
      const rt = event.timeStamp - shownAt();
      if (answered || rt < settings.minimum_rt_ms) return;
      answered = true;
      stop();
      button.classList.add("chosen");
      const data = {
        choice,
        rt_ms: Math.round(rt),
        input: inputOf(event),
        answered_at: new Date().toISOString(),
      };
      setTimeout(() => resolve(data), MARK_MS);
    };
    const onkey = (/** @type {KeyboardEvent} */ event) => {
      if (!screen.isConnected) return stop(); // jsPsych was stopped
      const buttons = /** @type {NodeListOf<HTMLElement>} */ (
        screen.querySelectorAll("button.answer")
      );
      const button = buttons[placeOfKey(event, buttons.length)];
      // A key held down since the last trial is no answer to this one.
      if (!button || event.repeat) return;
      event.preventDefault();
      choose(Number(button.dataset.choice), event, button);
    };
    const fill = () => screen.replaceChildren(title, ...draw(choose).filter((one) => one !== null));
    const stop = () => {
      removeEventListener("keydown", onkey);
      STACKED.removeEventListener("change", fill);
    };
    fill();
    display.replaceChildren(screen);
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
    addEventListener("keydown", onkey);
    STACKED.addEventListener("change", fill);
    shownAt = seen();
  });
}

/**
 * What is drawn again when the layout changes, as long as it is shown.
 * @param {() => Element} draw
 */
export function following(draw) {
  const place = element("div", {}, draw());
  const again = () => {
    if (place.isConnected) place.replaceChildren(draw());
    else STACKED.removeEventListener("change", again);
  };
  STACKED.addEventListener("change", again);
  return place;
}

/**
 * Which keys there are.
 * @param {Tools} tools
 * @param {number} last
 */
export function keyHint({ say }, last) {
  return element("p", { class: "hint", text: say("key_hint", { first: 1, last }) });
}
