import { Type, type Static, type TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { parse, parseAllDocuments } from 'yaml';

/** What every object has. */
const Manifest = Type.Object({
  apiVersion: Type.String(),
  kind: Type.String(),
  metadata: Type.Object({ name: Type.String() }),
});
export type Manifest = Static<typeof Manifest>;

const Labels = Type.Record(Type.String(), Type.String());
const closed = Type.Object({
  allowPrivilegeEscalation: Type.Literal(false),
  readOnlyRootFilesystem: Type.Literal(true),
  capabilities: Type.Object({ drop: Type.Tuple([Type.Literal('ALL')]) }),
});
const probe = (page: string): TSchema =>
  Type.Object({ httpGet: Type.Object({ path: Type.Literal(page), port: Type.Literal('http') }) });
const Mount = Type.Object(
  { name: Type.String(), mountPath: Type.String(), readOnly: Type.Optional(Type.Boolean()) },
  // A `subPath` among them never sees an update.
  { additionalProperties: false },
);

/** The rules for a workload of the gateway; those that compare two places follow below. */
const Workload = Type.Object({
  kind: Type.Union([Type.Literal('StatefulSet'), Type.Literal('Deployment')]),
  spec: Type.Object({
    selector: Type.Object({ matchLabels: Labels }),
    template: Type.Object({
      metadata: Type.Object({ labels: Labels, annotations: Labels }),
      spec: Type.Object({
        enableServiceLinks: Type.Literal(false),
        terminationGracePeriodSeconds: Type.Integer(),
        securityContext: Type.Object({
          runAsNonRoot: Type.Literal(true),
          runAsUser: Type.Literal(10001),
          fsGroup: Type.Literal(10001),
          seccompProfile: Type.Object({ type: Type.Literal('RuntimeDefault') }),
        }),
        initContainers: Type.Array(Type.Object({ securityContext: closed })),
        containers: Type.Tuple([
          Type.Object({
            securityContext: closed,
            startupProbe: probe('/healthz'),
            livenessProbe: probe('/healthz'),
            readinessProbe: probe('/readyz'),
            resources: Type.Object({ limits: Type.Object({ memory: Type.String() }) }),
            volumeMounts: Type.Array(Mount),
          }),
        ]),
      }),
    }),
  }),
});
const Selecting = Type.Object({
  spec: Type.Object({ selector: Type.Object({ matchLabels: Labels }) }),
});
const Service = Type.Object({
  metadata: Type.Object({ labels: Labels }),
  spec: Type.Object({ selector: Labels }),
});
const Autoscaler = Type.Object({
  spec: Type.Object({ scaleTargetRef: Type.Object({ kind: Type.String(), name: Type.String() }) }),
});
const ConfigMap = Type.Object({ data: Type.Record(Type.String(), Type.String()) });
const Gateway = Type.Object({
  server: Type.Object({ drain_delay_ms: Type.Integer(), shutdown_timeout_ms: Type.Integer() }),
});

/** Seconds that the stores get to close, after what is under way has ended. */
const closingSeconds = 15;
/** What may be written: the volume and the temporary folder. */
const writable = ['/tmp', '/var/lib/weir'];

export function readManifests(text: string): readonly Manifest[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as unknown)
    .filter((value) => value !== null)
    .map((value) => Value.Parse(Manifest, value));
}

/** The one manifest of this kind, as this schema has it; throws with the place of a mistake. */
function only<T extends TSchema>(manifests: readonly Manifest[], schema: T, ...kinds: string[]): Static<T> {
  const found = manifests.filter(({ kind }) => kinds.includes(kind));
  const [first] = found;
  if (first === undefined || found.length > 1)
    throw new Error(`There are ${found.length} of ${kinds.join(' and ')}.`);
  return checked(schema, first, first);
}

function checked<T extends TSchema>(schema: T, value: unknown, { kind, metadata }: Manifest): Static<T> {
  const [fault] = Value.Errors(schema, value);
  if (fault !== undefined)
    throw new Error(`${kind} ${metadata.name}: ${fault.instancePath || '/'} ${fault.message}`);
  return Value.Parse(schema, value);
}

/** The text of `gateway.config.yaml` that the chart mounts. */
export function gatewayConfig(manifests: readonly Manifest[]): Readonly<Record<string, string>> {
  const holders = manifests.filter(
    (one) => one.kind === 'ConfigMap' && 'gateway.config.yaml' in checked(ConfigMap, one, one).data,
  );
  return only(holders, ConfigMap, 'ConfigMap').data;
}

/** What decides whether an update replaces the pods. */
export function podTemplate(manifests: readonly Manifest[]): string {
  return JSON.stringify(only(manifests, Workload, 'StatefulSet', 'Deployment').spec.template);
}

/** Everything that is wrong with the manifests of one release. */
export function manifestProblems(manifests: readonly Manifest[]): readonly string[] {
  const { kind, spec } = only(manifests, Workload, 'StatefulSet', 'Deployment');
  const pod = spec.template.spec;
  const { server } = Value.Parse(Gateway, parse(gatewayConfig(manifests)['gateway.config.yaml'] ?? ''));
  const problems: string[] = [];
  const ending = (server.drain_delay_ms + server.shutdown_timeout_ms) / 1000 + closingSeconds;
  if (pod.terminationGracePeriodSeconds < ending)
    problems.push(`The pod has ${pod.terminationGracePeriodSeconds} s to end and takes up to ${ending} s.`);
  for (const { name, mountPath, readOnly = false } of pod.containers[0].volumeMounts)
    if (!readOnly && !writable.includes(mountPath)) problems.push(`${name} may be written at ${mountPath}.`);

  const { labels } = spec.template.metadata;
  const selects = (wanted: Readonly<Record<string, string>>, of: Readonly<Record<string, string>>): boolean =>
    Object.entries(wanted).every(([name, value]) => of[name] === value);
  const services = manifests.filter((one) => one.kind === 'Service').map((one) => checked(Service, one, one));
  for (const one of manifests) {
    const owner = `${one.kind} ${one.metadata.name}`;
    if (['PodDisruptionBudget', 'StatefulSet', 'Deployment'].includes(one.kind)) {
      if (!selects(checked(Selecting, one, one).spec.selector.matchLabels, labels))
        problems.push(`${owner} selects other pods.`);
    } else if (one.kind === 'Service') {
      if (!selects(checked(Service, one, one).spec.selector, labels))
        problems.push(`${owner} selects other pods.`);
    } else if (one.kind === 'ServiceMonitor') {
      const wanted = checked(Selecting, one, one).spec.selector.matchLabels;
      const found = services.filter(({ metadata }) => selects(wanted, metadata.labels)).length;
      // Of two each pod would be counted twice.
      if (found !== 1) problems.push(`${owner} selects ${found} services.`);
    } else if (one.kind === 'HorizontalPodAutoscaler') {
      const target = checked(Autoscaler, one, one).spec.scaleTargetRef;
      const exists = manifests.some(
        (each) => each.kind === target.kind && each.metadata.name === target.name,
      );
      if (!exists || target.kind !== kind)
        problems.push(`${owner} scales ${target.kind} ${target.name}, which is not there.`);
    }
  }
  return problems;
}
