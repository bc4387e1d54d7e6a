/** A typed slot of a request's context. Make one with `defineKey`, share it by importing it. */
export interface ContextKey<T> {
  readonly name: string;
  /** Only for the type checker; never present. */
  readonly __type?: T;
}

/** Declares a slot. The name is for messages; identity is the object itself. */
export function defineKey<T>(name: string): ContextKey<T> {
  return Object.freeze({ name });
}
