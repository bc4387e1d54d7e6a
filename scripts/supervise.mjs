// Starts the gateway as a child, forwards signals, and restarts it when it could not continue: after the exit code 70
// (its event loop was blocked, or an exception was not caught) or an unrequested signal. Waits 1 s before the second
// start, doubled up to 60 s as long as it does not live for a minute. Otherwise ends with the child's exit status.
import { spawn } from 'node:child_process';

const restartExitCode = 70;
const fatalSignals = new Set(['SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGTRAP', 'SIGFPE']);
const longestWaitMs = 60_000;
const healthyMs = 60_000;

/** Runs the program until it ends permanently, and then ends this process the same way. */
export function supervise(program, args, { restart, options = {} }) {
  let child;
  let timer;
  let stopping = false;
  let waitMs = 1000;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => {
      if (signal !== 'SIGHUP') stopping = true;
      if (timer === undefined) child.kill(signal);
      else if (stopping) process.exit(128);
    });
  const start = () => {
    timer = undefined;
    const startedAt = performance.now();
    child = spawn(program, args, { stdio: 'inherit', ...options });
    child.on('exit', (code, signal) => {
      const failed = code === restartExitCode || (signal !== null && fatalSignals.has(signal));
      if (!restart || stopping || !failed) process.exit(code ?? (signal === null ? 1 : 128));
      if (performance.now() - startedAt > healthyMs) waitMs = 1000;
      console.error(`The gateway ended with ${signal ?? code}; it is started again in ${waitMs / 1000} s.`);
      timer = setTimeout(start, waitMs);
      waitMs = Math.min(longestWaitMs, waitMs * 2);
    });
  };
  start();
}
