import { FirstRun } from '@/pages/start/first-run';
import { start } from '@/texts/start';
import { Page } from '@/ui/page';

/** The first request, also after others: for a new application, or a colleague. */
export default function Start() {
  return (
    <Page title={start.title} intro={start.intro}>
      <FirstRun titled={false} />
    </Page>
  );
}
