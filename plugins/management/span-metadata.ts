import { clipText } from './reported-row.ts';
import type { AttributeValue, ReportedSpan } from './otlp-spans.ts';
import { isContent } from './span-bodies.ts';
import type { SpanReader } from './span-reader.ts';

const maxKeys = 20;
const maxLength = 128;

/**
 * What a span and its resource say beside what stands in columns, as metadata: 20 keys at the most, names and values cut
 * at 128 characters. The service comes first, then the span's own attributes, then the rest of the resource. What was said
 * to a model and by it is no metadata.
 */
export function spanMetadata(span: ReportedSpan, { asked }: SpanReader): Record<string, string> {
  const metadata: Record<string, string> = {};
  let keys = 0;
  const add = (name: string, value: AttributeValue | undefined): void => {
    const key = clipText(name, maxLength);
    if (value === undefined || keys >= maxKeys || Object.hasOwn(metadata, key)) return;
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
    if (text === '') return;
    metadata[key] = clipText(text, maxLength);
    keys++;
  };
  const { attributes, resource } = span;
  add('_user', attributes.get('enduser.id') ?? attributes.get('user.id'));
  add('service.name', resource.get('service.name'));
  for (const [name, value] of attributes) {
    if (!asked.has(name) && !isContent(name) && name !== 'enduser.id' && name !== 'user.id') add(name, value);
  }
  for (const [name, value] of resource) add(name, value);
  return metadata;
}
