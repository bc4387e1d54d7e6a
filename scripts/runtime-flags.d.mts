/** Flags of Node for the gateway. */
export const runtimeFlags: readonly string[];
