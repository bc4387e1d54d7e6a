/** How Node is started for the gateway. */
export const runtimeFlags: readonly string[];
