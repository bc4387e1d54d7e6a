import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { stringify } from 'yaml';

const Target = Type.Object({ expr: Type.String(), refId: Type.String() });
const Panel = Type.Object({
  title: Type.String(),
  type: Type.String(),
  targets: Type.Optional(Type.Array(Target)),
});
const Variable = Type.Object({
  name: Type.String(),
  query: Type.Optional(Type.Union([Type.String(), Type.Object({ query: Type.String() })])),
});
const Dashboard = Type.Object({
  panels: Type.Array(Panel),
  templating: Type.Object({ list: Type.Array(Variable) }),
});

/** One query of a dashboard. */
interface DashboardQuery {
  /** The panel, and the letter of the query. */
  readonly place: string;
  /** PromQL, with values for the variables of the dashboard. */
  readonly expr: string;
}

/** What Grafana puts in place of its own variables. */
const builtIn: Readonly<Record<string, string>> = { __rate_interval: '5m', __range: '1h', __interval: '1m' };

/** Every query of the panels of a dashboard (JSON of Grafana); throws when a panel has none. */
export function dashboardQueries(text: string): readonly DashboardQuery[] {
  const { panels, templating } = Value.Parse(Dashboard, JSON.parse(text));
  const own = new Set(templating.list.map(({ name }) => name));
  return panels
    .filter(({ type }) => type !== 'row')
    .flatMap(({ title, targets = [] }) => {
      if (targets.length === 0) throw new Error(`The panel "${title}" asks nothing.`);
      return targets.map(({ expr, refId }) => ({
        place: `${title} (${refId})`,
        expr: expr.replace(/\$\{?(\w+)\}?/g, (whole, name: string) => {
          const value = builtIn[name] ?? (own.has(name) ? '.*' : undefined);
          if (value === undefined)
            throw new Error(`The panel "${title}" names ${whole}, which is no variable.`);
          return value;
        }),
      }));
    });
}

/** A rules file of Prometheus with one rule for each query, so that a checker of rules reads them. */
export function rulesFile(queries: readonly DashboardQuery[]): string {
  const rules = queries.map(({ expr, place }, index) => ({
    record: `dashboard:query:${index}`,
    expr,
    labels: { place },
  }));
  return stringify({ groups: [{ name: 'dashboard', rules }] });
}
