// How Node is started for the gateway. A larger young generation: a request's objects die with it, and at V8's default
// of 16 MiB many of them are still alive when the next scavenge comes and are copied for nothing.
export const runtimeFlags = ['--max-semi-space-size=64'];
