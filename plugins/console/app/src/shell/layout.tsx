import { lazy, Suspense, useEffect, useState } from 'react';
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { DropdownMenu } from 'radix-ui';
import { Check, CircleUser, LogOut, Menu, Search, X } from 'lucide-react';
import { useSession } from '@/api/session';
import { classes } from '@/lib/classes';
import { tellClippedTexts } from '@/lib/clipped';
import { zoneName } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { offsetName } from '@/lib/zones';
import { Palette } from '@/shell/palette';
import { useVisiblePlaces } from '@/shell/places';
import { common } from '@/texts/common';
import { Button, IconButton } from '@/ui/button';
import { Boundary } from '@/ui/states';

const ZonePicker = lazy(() => import('@/shell/zone-picker'));

/** As the keyboard at hand has it. */
const paletteKeys = /mac|iphone|ipad/i.test(navigator.userAgent) ? '⌘K' : 'Ctrl K';

/** The frame around every page of a signed-in user. */
export function Layout() {
  const place = useRouterState({ select: (state) => state.location.pathname });
  const [palette, setPalette] = useState(false);
  const [menu, setMenu] = useState(false);
  const [choosing, setChoosing] = useState(false);
  const choose = (): void => setChoosing(true);
  useEffect(() => setMenu(false), [place]);
  useEffect(tellClippedTexts, []);
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const typing =
        event.target instanceof HTMLElement &&
        event.target.closest('input, textarea, select, [contenteditable]');
      if (event.key === 'k' && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        setPalette(true);
      } else if (event.key === '/' && !typing) {
        const search = document.querySelector<HTMLElement>('[data-search]');
        if (search === null) setPalette(true);
        else search.focus();
        event.preventDefault();
      } else if (event.key === 'j' && !typing && event.target === document.body) {
        // From a row on, the table walks.
        document.querySelector<HTMLElement>('main [data-row][tabindex]')?.focus();
      }
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
  return (
    <div className="flex h-dvh">
      <a href="#content" className="bg-panel sr-only z-50 p-2 focus:not-sr-only focus:fixed">
        {common.skip}
      </a>
      <aside
        id="navigation"
        className={classes(
          'border-line bg-panel z-30 w-56 shrink-0 flex-col border-r max-md:fixed max-md:inset-y-0',
          menu ? 'flex' : 'flex max-md:hidden',
        )}
      >
        <Navigation />
      </aside>
      <div className="flex min-w-0 grow flex-col">
        <header className="border-line bg-panel flex h-12 shrink-0 items-center gap-2 border-b px-3">
          <IconButton
            label={common.nav.menu}
            aria-expanded={menu}
            aria-controls="navigation"
            className="md:hidden"
            onClick={() => setMenu(!menu)}
          >
            {menu ? <X className="size-4" /> : <Menu className="size-4" />}
          </IconButton>
          <Button className="text-soft w-64 min-w-0 shrink justify-start" onClick={() => setPalette(true)}>
            <Search className="size-4" />
            <span className="grow truncate text-left">{common.palette.open}</span>
            <kbd className="text-xs max-sm:hidden">{paletteKeys}</kbd>
          </Button>
          <div className="grow" />
          <ZoneButton onChoose={choose} />
          <AccountMenu onZone={choose} />
        </header>
        <main id="content" tabIndex={-1} className="min-h-0 grow overflow-auto outline-none">
          <Boundary place={place}>
            <Outlet />
          </Boundary>
        </main>
      </div>
      <Palette open={palette} onOpenChange={setPalette} onZone={choose} />
      {choosing && (
        <Boundary place={place}>
          <Suspense>
            <ZonePicker onClose={() => setChoosing(false)} />
          </Suspense>
        </Boundary>
      )}
    </div>
  );
}

function Navigation() {
  const visible = useVisiblePlaces();
  return (
    <nav aria-label={common.product} className="flex grow flex-col gap-3 overflow-y-auto p-3">
      <Link to="/" className="px-2 text-lg font-semibold">
        {common.product}
      </Link>
      {Object.entries(common.nav.groups).map(([group, title]) => {
        const own = visible.filter((place) => place.group === group);
        if (own.length === 0) return null;
        return (
          <div key={group}>
            <p className="text-soft px-2 pb-1 text-xs font-medium">{title}</p>
            <ul>
              {own.map(({ path, text, icon: Icon }) => (
                <li key={path}>
                  <Link
                    to={path}
                    activeOptions={{ exact: path === '/', includeSearch: false }}
                    activeProps={{
                      className: 'bg-accent-wash text-accent font-medium',
                      'aria-current': 'page',
                    }}
                    className="hover:bg-raised flex items-center gap-2 rounded-md px-2 py-1.5"
                  >
                    <Icon className="size-4" aria-hidden />
                    {text}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </nav>
  );
}

/** Says in which zone all times are shown, and leads to the choice of another one. */
function ZoneButton({ onChoose }: { readonly onChoose: () => void }) {
  const { zone } = usePreferences();
  return (
    <Button
      kind="quiet"
      className="text-soft px-2 text-xs tabular-nums"
      title={common.zone.choose}
      onClick={onChoose}
    >
      <span className="sr-only">{common.zone.shown(zoneName(zone))}</span>
      <span aria-hidden>{offsetName(zone)}</span>
      {zone !== 'utc' && (
        <span className="max-sm:sr-only">({zone === 'local' ? common.zone.here : zoneName(zone)})</span>
      )}
    </Button>
  );
}

function AccountMenu({ onZone }: { readonly onZone: () => void }) {
  const { caller, signOut } = useSession();
  const { look, setLook, zone, setZone } = usePreferences();
  const item =
    'flex items-center gap-2 rounded px-2 py-1.5 outline-none cursor-pointer data-highlighted:bg-raised';
  const mark = <DropdownMenu.ItemIndicator>{<Check className="size-4" />}</DropdownMenu.ItemIndicator>;
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>
        <Button kind="quiet" aria-label={common.menuOf(caller?.name ?? '')}>
          <CircleUser className="size-4" />
          <span className="max-w-40 truncate">{caller?.name}</span>
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="end"
          sideOffset={4}
          className="border-line bg-panel z-50 min-w-52 rounded-lg border p-1 shadow-lg"
        >
          <DropdownMenu.Label className="px-2 py-1.5">
            <p className="font-medium">{caller?.name}</p>
            <p className="text-soft text-xs">{caller?.role}</p>
          </DropdownMenu.Label>
          <DropdownMenu.Separator className="bg-line my-1 h-px" />
          <DropdownMenu.RadioGroup value={look} onValueChange={(value) => setLook(value as typeof look)}>
            {(['system', 'light', 'dark'] as const).map((one) => (
              <DropdownMenu.RadioItem key={one} value={one} className={item}>
                <span className="w-4">{mark}</span>
                {common.look[one]}
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Separator className="bg-line my-1 h-px" />
          <DropdownMenu.RadioGroup value={zone} onValueChange={setZone}>
            {[...new Set(['local', 'utc', zone])].map((one) => (
              <DropdownMenu.RadioItem key={one} value={one} className={item}>
                <span className="w-4">{mark}</span>
                {one === 'local' ? common.zone.local : zoneName(one)}
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Item className={item} onSelect={onZone}>
            <span className="w-4" />
            {common.zone.choose}
          </DropdownMenu.Item>
          <DropdownMenu.Separator className="bg-line my-1 h-px" />
          <DropdownMenu.Item className={item} onSelect={() => void signOut()}>
            <LogOut className="size-4" />
            {common.signOut}
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
