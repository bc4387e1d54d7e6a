// Folders whose tests run together in one process: to start one for each of their files takes longer than most of the
// tests. They leave nothing behind and have no hooks outside of a `describe`.
export const groups = {
  /** Code that knows no process, file or socket. */
  pure: ['adapters/dialects', 'adapters/framing', 'core/dialects'],
  /** Requests through a gateway in the same process. */
  core: ['core/http', 'core/pipeline', 'core/ports', 'core/routing', 'tests/integration/resilience'],
  plugins: ['plugins', 'tests/golden'],
};
