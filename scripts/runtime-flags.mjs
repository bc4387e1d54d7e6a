// How Node is started for the gateway. A larger young generation: a request's objects die with it, and at V8's default
// of 16 MiB many of them are still alive when the next scavenge comes and are copied for nothing. A later first look at
// the old generation, whose default limit is so low that a busy gateway would be marking it all the time. No
// pretenuring: while it warms up, with a small young generation full of requests under way, V8 takes it that what a
// request is known by lives long, and from then on makes it in the old generation, which keeps what it refers to alive
// as well. Each scavenge then copies twice as much, and the old generation grows by 1.4 KB a request until it is marked.
// Scavenges without helpers: what is alive is little, and to wake threads for it costs more than they take over.
// Larger functions than by default are compiled into their callers: a request walks through some two hundred small
// functions, and V8 stops inlining them long before they are one.
export const runtimeFlags = [
  '--max-semi-space-size=64',
  '--initial-old-space-size=256',
  '--no-allocation-site-pretenuring',
  '--no-parallel-scavenge',
  '--max-inlined-bytecode-size=1500',
  '--max-inlined-bytecode-size-cumulative=4000',
];
