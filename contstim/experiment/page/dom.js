// Building the page from texts. Whatever comes from a study is set as text, never as HTML.

/**
 * Make an element; `attributes` named `on…` are listeners, `text` is its text.
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {...(Node | string | null | undefined | (Node | string | null | undefined)[])} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/**
 * Fill in `{name}` in a text; names that are not given stay as they are.
 * @param {string} text
 * @param {Record<string, unknown>} values
 */
export function fill(text, values = {}) {
  return text.replace(/\{(\w+)\}/g, (whole, name) =>
    Object.hasOwn(values, name) ? String(values[name]) : whole,
  );
}

/**
 * A line of text, in which `[words](address)` is a link to a page or a mail address.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function linked(text) {
  // Between texts, every two parts are a link's words and address.
  const parts = text.split(/\[([^\]]+)\]\(((?:https?:\/\/|mailto:)[^\s)]+)\)/);
  /** @type {(Node | string)[]} */
  const made = [];
  for (let place = 0; place < parts.length; place += 3) {
    if (place) {
      const [words, href] = parts.slice(place - 2, place);
      made.push(element("a", { href, target: "_blank", rel: "noreferrer noopener", text: words }));
    }
    if (parts[place]) made.push(parts[place]);
  }
  return made;
}

/**
 * Turn plain text into elements: a blank line starts a paragraph, lines that begin with `#` are
 * headings, lines that begin with `- ` or `* ` a list; links as in `linked`.
 * @param {string} text
 */
export function prose(text) {
  /** @type {HTMLElement[]} */
  const made = [];
  for (const block of text.replace(/\r\n?/g, "\n").split(/\n\s*\n/)) {
    /** @type {HTMLElement | null} */
    let open = null; // the paragraph or list that further lines belong to
    for (const line of block.split("\n").map((one) => one.trim())) {
      const heading = /^(#{1,6})\s+(.*)$/.exec(line);
      const item = /^[-*]\s+(.*)$/.exec(line);
      if (!line) continue;
      if (heading) {
        // The screen's own title is the h1.
        made.push(element(heading[1].length === 1 ? "h2" : "h3", { text: heading[2] }));
        open = null;
      } else if (item) {
        if (open?.tagName !== "UL") made.push((open = element("ul")));
        open.append(element("li", {}, linked(item[1])));
      } else if (open?.tagName === "UL") {
        open.lastElementChild?.append(" ", ...linked(line));
      } else if (open) {
        open.append(" ", ...linked(line));
      } else {
        made.push((open = element("p", {}, linked(line))));
      }
    }
  }
  return made;
}

/** A random UUID (version 4); `crypto.randomUUID` is missing on pages without TLS. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [8, 12, 16, 20].reduceRight((id, at) => `${id.slice(0, at)}-${id.slice(at)}`, hex);
}

/**
 * Resolve after some milliseconds.
 * @param {number} milliseconds
 */
export function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
