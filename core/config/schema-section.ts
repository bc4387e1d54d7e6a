/** Options of an object that knows all its keys. */
export const strict = { additionalProperties: false };
/** A section that may be left out: it is then filled with the defaults of its keys. */
export const section = { ...strict, default: {} };
