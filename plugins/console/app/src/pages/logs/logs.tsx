import { Page } from '@/ui/page';

export default function Logs() {
  return <Page title="Logs">{null}</Page>;
}
