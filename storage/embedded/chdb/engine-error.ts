const leadingCode = /^(?:Error: )?Code: (\d+)\./;

/** An error in the words and with the number that a ClickHouse server would use, so that its clients can read it. */
export class EngineError extends Error {
  readonly engineCode: number;

  constructor(engineCode: number, type: string, message: string) {
    super(`Code: ${engineCode}. DB::Exception: ${message} (${type})`);
    this.name = 'EngineError';
    this.engineCode = engineCode;
  }
}

/** The engine's error number of anything thrown; 1002 (unknown exception) when it has none. */
export function engineCodeOf(error: unknown): number {
  if (error instanceof EngineError) return error.engineCode;
  const message = error instanceof Error ? error.message : String(error);
  const code = leadingCode.exec(message)?.[1];
  return code === undefined ? 1002 : Number(code);
}

/** What goes into the body of a failed answer: always begins with `Code: N.`, as clients expect. */
export function engineMessageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return leadingCode.test(message) ? message : `Code: 1002. DB::Exception: ${message}. (UNKNOWN_EXCEPTION)`;
}

const statusByCode: Readonly<Record<number, number>> = {
  46: 404,
  47: 404,
  50: 404,
  56: 404,
  60: 404,
  81: 404,
  115: 404,
  48: 501,
  159: 408,
  160: 408,
  194: 401,
  202: 503,
  229: 413,
  439: 503,
  497: 403,
  516: 401,
};
const badRequest = new Set([
  6, 25, 26, 27, 32, 33, 36, 38, 41, 42, 43, 44, 53, 62, 69, 70, 72, 73, 117, 321, 349, 376, 407, 456, 457,
  467,
]);

/** The HTTP status that a server answers for an error number. */
export function statusOfCode(code: number): number {
  return statusByCode[code] ?? (badRequest.has(code) ? 400 : 500);
}
