import { list } from '@/lib/format';
import { configs } from '@/texts/configs';
import type { Plan } from '@/pages/configs/explain-panel';

const texts = configs.graph;
const width = 156;
const height = 46;
const gapX = 30;
const gapY = 14;
/** A picture that is wider than its place becomes smaller, down to this part of its size; then it scrolls. */
const leastScale = 0.75;
/** Boxes of a picture; a config may have thousands of targets. */
const mostBoxes = 120;

interface Box {
  /** `config.targets[1]`. */
  readonly option: string;
  readonly title: string;
  readonly detail: string;
  /** Why it is reached from the one before it: weight, condition, order. */
  readonly reason: string;
  readonly depth: number;
  readonly children: readonly Box[];
  readonly isBranch: boolean;
}

type Node = Readonly<Record<string, unknown>>;

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
}

/** The boxes of a config, at most 120. */
function boxesOf(config: unknown): Box | undefined {
  if (!isNode(config)) return undefined;
  let made = 0;
  const walk = (node: Node, option: string, reason: string, depth: number): Box => {
    made += 1;
    const strategy = isNode(node['strategy']) ? node['strategy'] : {};
    const targets = Array.isArray(node['targets']) ? node['targets'].filter(isNode) : [];
    const mode = text(strategy['mode']);
    const children: Box[] = [];
    targets.forEach((target, index) => {
      if (made >= mostBoxes || depth > 12) return;
      children.push(
        walk(target, `${option}.targets[${index}]`, reasonOf(target, index, strategy), depth + 1),
      );
    });
    const isBranch = targets.length > 0;
    const params = isNode(node['override_params']) ? node['override_params'] : {};
    const provider = text(node['virtual_key'] ?? node['provider']);
    const whole = isBranch
      ? mode || 'single'
      : node['config'] !== undefined
        ? texts.config(text(node['config']))
        : provider || texts.ofTheRequest;
    const name = text(node['name']);
    const extras = [text(params['model']), ...settings(node)].filter((one) => one !== '');
    return {
      option,
      title: name === '' ? whole : name,
      detail: [...(name === '' ? [] : [whole]), ...extras].join(' · '),
      reason,
      depth,
      children,
      isBranch,
    };
  };
  return walk(config, 'config', '', 0);
}

function settings(node: Node): readonly string[] {
  const retry = isNode(node['retry']) ? texts.retry(text(node['retry']['attempts'])) : '';
  const cache = node['cache'] === undefined ? '' : texts.cache;
  return [retry, cache];
}

function reasonOf(target: Node, index: number, strategy: Node): string {
  const mode = strategy['mode'];
  if (mode === 'loadbalance') return texts.weight(text(target['weight'] ?? 1));
  if (mode === 'fallback') return `${index + 1}.`;
  if (mode === 'canary') {
    const share = Number(strategy['percentage'] ?? 0);
    return texts.share(index === 0 ? 100 - share : share);
  }
  if (mode !== 'conditional') return '';
  const conditions = Array.isArray(strategy['conditions']) ? strategy['conditions'].filter(isNode) : [];
  const own = conditions.filter(({ then }) => then === target['name']).map(({ query }) => text(query));
  const isDefault = strategy['default'] === target['name'] && target['name'] !== undefined;
  return list([...own.map(texts.when), ...(isDefault ? [texts.otherwise] : [])]);
}

interface Placed {
  readonly box: Box;
  readonly x: number;
  readonly y: number;
  readonly from?: { readonly x: number; readonly y: number };
}

/** Each box beside the one that leads to it, at the height of the middle of its own. */
function placed(root: Box): {
  readonly boxes: readonly Placed[];
  readonly rows: number;
  readonly depth: number;
} {
  const boxes: Placed[] = [];
  let rows = 0;
  let deepest = 0;
  const walk = (box: Box): number => {
    deepest = Math.max(deepest, box.depth);
    const x = box.depth * (width + gapX);
    const ys = box.children.map(walk);
    const y = ys.length === 0 ? rows++ * (height + gapY) : ((ys[0] ?? 0) + (ys[ys.length - 1] ?? 0)) / 2;
    boxes.push({ box, x, y });
    box.children.forEach((child) => {
      const at = boxes.findIndex((one) => one.box === child);
      const known = boxes[at];
      if (known !== undefined) boxes[at] = { ...known, from: { x: x + width, y: y + height / 2 } };
    });
    return y;
  };
  walk(root);
  return { boxes: boxes.sort((a, b) => (a.box.option < b.box.option ? -1 : 1)), rows, depth: deepest };
}

interface RoutingGraphProps {
  readonly config: unknown;
  readonly plan: Plan | undefined;
  readonly onReveal: (option: string) => void;
}

/** The routing of a config as a picture, and as text below it. */
export function RoutingGraph({ config, plan, onReveal }: RoutingGraphProps) {
  const root = boxesOf(config);
  if (root === undefined) return <p className="text-soft p-4">{texts.empty}</p>;
  const { boxes, rows, depth } = placed(root);
  const order = new Map(plan?.tries.map(({ option }, index) => [option, index + 1]));
  const size = { width: (depth + 1) * width + depth * gapX + 4, height: rows * (height + gapY) + 4 };
  return (
    <div className="grid gap-3 p-4">
      <p className="text-soft text-xs">{texts.hint}</p>
      <div className="overflow-auto" tabIndex={0} role="group" aria-label={texts.label}>
        <svg
          viewBox={`-2 -2 ${size.width} ${size.height}`}
          className="h-auto w-full"
          style={{ maxWidth: size.width, minWidth: size.width * leastScale }}
        >
          {boxes.map(({ box, x, y, from }) =>
            from === undefined ? null : (
              <path
                key={box.option}
                aria-hidden
                d={`M${from.x} ${from.y} C${from.x + gapX / 2} ${from.y} ${x - gapX / 2} ${y + height / 2} ${x} ${y + height / 2}`}
                className="stroke-line fill-none"
                strokeWidth={order.has(box.option) ? 2.5 : 1.5}
              />
            ),
          )}
          {boxes.map(({ box, x, y }) => (
            <g
              key={box.option}
              role="button"
              tabIndex={0}
              aria-label={spoken(box, order.get(box.option))}
              className="group cursor-pointer outline-none"
              onClick={() => onReveal(box.option)}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' && event.key !== ' ') return;
                event.preventDefault();
                onReveal(box.option);
              }}
            >
              <title
                aria-hidden
              >{`${box.option}: ${[box.reason, box.title, box.detail].filter(Boolean).join(', ')}`}</title>
              <rect
                x={x}
                y={y}
                width={width}
                height={height}
                rx={8}
                className={`${box.isBranch ? 'fill-raised' : 'fill-panel'} ${order.get(box.option) === 1 ? 'stroke-accent' : 'stroke-line'} group-focus-visible:stroke-accent`}
                strokeWidth={order.get(box.option) === 1 ? 2 : 1.5}
              />
              <foreignObject x={x + 10} y={y + 5} width={width - 20} height={height - 10}>
                <div className="truncate text-xs leading-4 font-medium">
                  {titleOf(box, order.get(box.option))}
                </div>{' '}
                <div className="text-soft truncate text-[11px] leading-4">{detailOf(box)}</div>
              </foreignObject>
            </g>
          ))}
        </svg>
      </div>
      <details>
        <summary className="text-soft cursor-pointer">{texts.asText}</summary>
        <ul className="mt-1 pl-4">
          <TextOf box={root} />
        </ul>
      </details>
    </div>
  );
}

function titleOf({ title }: Box, order: number | undefined): string {
  return order === undefined ? title : `${order} · ${title}`;
}

function detailOf({ reason, detail }: Box): string {
  return [reason, detail].filter((one) => one !== '').join(' · ');
}

/** The name of a box begins with the words that are seen on it: they are what somebody says who speaks to the page. */
function spoken(box: Box, order: number | undefined): string {
  const seen = [titleOf(box, order), detailOf(box)].filter((one) => one !== '').join(' ');
  return box.isBranch ? seen : texts.target(seen);
}

function TextOf({ box }: { readonly box: Box }) {
  return (
    <li className="break-words">
      {[box.reason, box.title, box.detail].filter((one) => one !== '').join(' · ')}
      {box.children.length > 0 && (
        <ul className="pl-4">
          {box.children.map((child) => (
            <TextOf key={child.option} box={child} />
          ))}
        </ul>
      )}
    </li>
  );
}
