// How Node is started for the gateway. A larger young generation: a request's objects die with it, and at V8's default
// of 16 MiB many of them are still alive when the next scavenge comes and are copied for nothing. A later first look at
// the old generation, whose default limit is so low that a busy gateway would be marking it all the time.
export const runtimeFlags = ['--max-semi-space-size=64', '--initial-old-space-size=256'];
