import { randomInt } from 'node:crypto';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Makes an identifier that begins with the prefix: `chatcmpl-` and 24 letters and digits. */
export type NewId = (prefix: string) => string;

/** Makes identifiers from `random` (numbers from 0 to below 1); without it from the system's random source. */
export function idsFrom(random: (() => number) | undefined): NewId {
  const pick = random === undefined ? randomInt : (below: number) => Math.floor(random() * below);
  return (prefix) => {
    let id = prefix;
    for (let i = 0; i < 24; i++) id += alphabet.charAt(pick(alphabet.length));
    return id;
  };
}
