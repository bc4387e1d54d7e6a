import type { HeaderList } from '../../core/ports/header-list.ts';

const secretName = /key|token|secret|password|credential|cookie|signature|(^|[-_.])auth/i;

/** True for the name of a header or query parameter that may carry a credential. */
export function carriesSecret(name: string): boolean {
  return secretName.test(name);
}

/** Headers by lower-case name, in order; those that may carry a credential say `***`. */
export function maskedHeaders(headers: HeaderList): [string, string][] {
  const masked: [string, string][] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    masked.push([name, carriesSecret(name) ? '***' : (headers[i + 1] as string)]);
  }
  return masked;
}
