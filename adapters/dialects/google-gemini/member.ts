import { asObject, type JsonObject } from '../json-reading.ts';

const snakeNames = new Map<string, string>();

/**
 * A member by its camel-case name, or by the snake-case one: Google's JSON readers take both spellings, and so do its
 * clients write them.
 */
export function member(object: JsonObject, name: string): unknown {
  const value = object[name];
  return value === undefined ? object[snakeName(name)] : value;
}

/** The same when it is an object. */
export function memberObject(object: JsonObject, name: string): JsonObject | undefined {
  return asObject(member(object, name));
}

/** These members (camel-case names) in either spelling, for `otherMembers`. */
export function knownMembers(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap((name) => [name, snakeName(name)]));
}

/** The members that `known` does not list; undefined when there are none. */
export function otherMembers(object: JsonObject, known: ReadonlySet<string>): JsonObject | undefined {
  let others: JsonObject | undefined;
  for (const name of Object.keys(object)) {
    if (known.has(name) || object[name] === undefined) continue;
    others ??= {};
    others[name] = object[name];
  }
  return others;
}

/** The object without these members. */
export function withoutMembers(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

function snakeName(name: string): string {
  let snake = snakeNames.get(name);
  if (snake === undefined) {
    snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    snakeNames.set(name, snake);
  }
  return snake;
}
