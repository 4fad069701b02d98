// Whether the participant is with the page: how often and how long it was left.

export class Presence {
  /** @type {number | null} */
  #left = null;
  #losses = 0;
  #away = 0;

  /**
   * Told of `blur` and `focus`.
   * @type {(kind: string) => void}
   */
  onchange = () => {};

  constructor() {
    addEventListener("blur", () => this.#update());
    addEventListener("focus", () => this.#update());
    document.addEventListener("visibilitychange", () => this.#update());
  }

  #update() {
    const away = document.hidden || !document.hasFocus();
    if (away === (this.#left !== null)) return;
    if (away) {
      this.#left = performance.now();
      this.#losses += 1;
    } else {
      this.#away += performance.now() - /** @type {number} */ (this.#left);
      this.#left = null;
    }
    this.onchange(away ? "blur" : "focus");
  }

  /** Begin to count for a trial. */
  begin() {
    this.#losses = 0;
    this.#away = 0;
    if (this.#left !== null) this.#left = performance.now();
  }

  /** What was counted since `begin`. */
  end() {
    const open = this.#left === null ? 0 : performance.now() - this.#left;
    return { focus_losses: this.#losses, hidden_ms: Math.round(this.#away + open) };
  }
}
