// What the browser keeps: sessions, and the rows (answers and events) that have been made.
//
// IndexedDB and not localStorage, for three reasons: a transaction of "strict" durability is
// complete only when the browser has handed it to the disk, so an answer that was followed by the
// next trial outlives a crash of the browser; several tabs can write at once without losing each
// other's rows; and there is room for more than localStorage's 5 MB, which all studies of a host
// would share. Where it is refused (private windows of some browsers, a full disk) rows are kept
// in memory and the page says so.

const DATABASE = "contstim";

/**
 * @typedef {import("./types").Kept} Kept
 * @typedef {import("./types").Row} Row
 */

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function promised(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @returns {Promise<IDBDatabase>} */
function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("sessions", { keyPath: "key" });
      request.result.createObjectStore("shown");
      const rows = request.result.createObjectStore("rows", { keyPath: "id" });
      rows.createIndex("session", "session");
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("blocked"));
  });
}

/** Open the browser's storage, or a stand-in in memory where there is none. */
export async function openStore() {
  try {
    const database = await opened();
    // A newer page in another tab may want to change the layout.
    database.onversionchange = () => database.close();
    return new Store(database);
  } catch {
    return new Store(null);
  }
}

export class Store {
  #database;
  #memory = {
    /** @type {Map<string, Kept>} */
    sessions: new Map(),
    /** @type {Map<string, number>} */
    shown: new Map(),
    /** @type {Map<string, Row>} */
    rows: new Map(),
  };

  /** Told when the browser no longer keeps what it is given. */
  onloss = () => {};

  /** @param {IDBDatabase | null} database */
  constructor(database) {
    this.#database = database;
  }

  /** Whether rows outlive the page. */
  get lasting() {
    return this.#database !== null;
  }

  #lose() {
    if (!this.#database) return;
    this.#database = null;
    this.onloss();
  }

  /**
   * Run `work` on an object store; it is complete when this returns.
   * @param {string} name
   * @param {(store: IDBObjectStore) => void} work
   * @param {IDBTransactionDurability} durability
   */
  async #write(name, work, durability = "relaxed") {
    if (!this.#database) return;
    try {
      const transaction = this.#database.transaction(name, "readwrite", { durability });
      /** @type {Promise<void>} */
      const complete = new Promise((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error);
        transaction.onerror = () => reject(transaction.error);
      });
      work(transaction.objectStore(name));
      await complete;
    } catch {
      this.#lose();
    }
  }

  /**
   * @template T
   * @param {string} name
   * @param {(store: IDBObjectStore) => IDBRequest<T>} work
   * @param {() => T} otherwise
   * @returns {Promise<T>}
   */
  async #read(name, work, otherwise) {
    if (!this.#database) return otherwise();
    try {
      return await promised(work(this.#database.transaction(name).objectStore(name)));
    } catch {
      this.#lose();
      return otherwise();
    }
  }

  /**
   * The session that was kept under a key, if there is one.
   * @param {string} key
   * @returns {Promise<Kept | undefined>}
   */
  session(key) {
    const { sessions } = this.#memory;
    return this.#read("sessions", (store) => store.get(key), () => sessions.get(key));
  }

  /**
   * All sessions that were kept.
   * @returns {Promise<Kept[]>}
   */
  sessions() {
    const { sessions } = this.#memory;
    return this.#read("sessions", (store) => store.getAll(), () => [...sessions.values()]);
  }

  /** @param {Kept} record */
  async keepSession(record) {
    this.#memory.sessions.set(record.key, record);
    await this.#write("sessions", (store) => store.put(record), "strict");
  }

  /** @param {string} key */
  async dropSession(key) {
    this.#memory.sessions.delete(key);
    await this.#write("sessions", (store) => store.delete(key));
  }

  /**
   * Count that a trial of a session is shown; return how often it has been.
   * @param {string} session
   * @param {string} trial
   */
  async countShown(session, trial) {
    const key = `${session}/${trial}`;
    const { shown } = this.#memory;
    const before = await this.#read("shown", (store) => store.get(key), () => shown.get(key));
    const count = (before ?? 0) + 1;
    shown.set(key, count);
    await this.#write("shown", (store) => store.put(count, key));
    return count;
  }

  /**
   * Keep a row; it is on the disk when this returns.
   * @param {Row} row
   */
  async keepRow(row) {
    this.#memory.rows.set(row.id, row);
    await this.#write("rows", (store) => store.put(row), "strict");
  }

  /**
   * Change rows that were kept.
   * @param {Row[]} rows
   */
  async changeRows(rows) {
    for (const row of rows) this.#memory.rows.set(row.id, row);
    await this.#write("rows", (store) => rows.forEach((row) => store.put(row)));
  }

  /**
   * The rows of a session in the order in which they were made.
   * @param {string} session
   * @returns {Promise<Row[]>}
   */
  async rows(session) {
    const { rows } = this.#memory;
    const found = await this.#read(
      "rows",
      (store) => store.index("session").getAll(session),
      () => [...rows.values()].filter((row) => row.session === session),
    );
    return found.sort((one, two) => one.order - two.order);
  }

  /**
   * Forget the rows of a session, whatever became of them.
   * @param {string} session
   */
  async dropRows(session) {
    const rows = await this.rows(session);
    for (const row of rows) this.#memory.rows.delete(row.id);
    await this.#write("rows", (store) => rows.forEach((row) => store.delete(row.id)));
    await this.#write("shown", (store) =>
      store.delete(IDBKeyRange.bound(`${session}/`, `${session}0`, false, true)),
    );
  }
}
