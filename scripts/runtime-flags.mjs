// Flags of Node for the gateway. A larger young generation: a request's objects die with it, and at V8's default of 16
// MiB many of them are still alive at the next scavenge and are copied for nothing. A later first collection of the old
// generation, whose default limit is so low that a busy gateway would be marking it all the time. No pretenuring:
// during warm-up, with a small young generation full of running requests, V8 concludes that a request's objects live
// long, and from then on allocates them in the old generation, which also keeps alive everything that they refer to.
// Each scavenge then copies twice as much, and the old generation grows by 1.4 KB per request until it is marked.
// Scavenges without helper threads: little is alive, and waking threads costs more than they save. Larger functions
// than by default are inlined: a request passes through some two hundred small functions, and V8 otherwise stops
// inlining them early. Memory is returned after five minutes without load instead of eight seconds: that collection
// also drops the hidden classes that no object has at the moment, and the compiled code that relies on them, so that the
// next 8,000 requests cost up to 1.8 times as much.
export const runtimeFlags = [
  '--max-semi-space-size=64',
  '--initial-old-space-size=256',
  '--no-allocation-site-pretenuring',
  '--no-parallel-scavenge',
  '--max-inlined-bytecode-size=1500',
  '--max-inlined-bytecode-size-cumulative=4000',
  '--gc-memory-reducer-start-delay-ms=300000',
];
