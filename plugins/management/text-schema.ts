// One definition for what people send and for what stands in files.
export {
  Description,
  Identifier,
  Instant,
  ManagedBy,
  Metadata,
  Name,
  orNull,
  Person,
  strict,
} from '../../core/organisation/text-schema.ts';
