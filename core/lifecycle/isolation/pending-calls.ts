interface PendingCall {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Calls to the other side of a thread that have not been answered, by their number. */
export class PendingCalls {
  readonly #pending = new Map<number, PendingCall>();
  #last = 0;

  get size(): number {
    return this.#pending.size;
  }

  /** Sends a call under a new number; settles with its answer. A call that cannot be sent rejects and is forgotten. */
  open<T>(send: (id: number) => void): Promise<T> {
    const id = ++this.#last;
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, { resolve: (value) => resolve(value as T), reject });
      try {
        send(id);
      } catch (error) {
        this.#pending.delete(id);
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  resolve(id: number, value: unknown): void {
    this.#take(id)?.resolve(value);
  }

  reject(id: number, error: Error): void {
    this.#take(id)?.reject(error);
  }

  rejectAll(message: string): void {
    for (const { reject } of this.#pending.values()) reject(new Error(message));
    this.#pending.clear();
  }

  #take(id: number): PendingCall | undefined {
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    return call;
  }
}
