// Pictures of every panel of a running demo, for the documents: node shots.mjs DIRECTORY
import { mkdirSync } from 'node:fs';
import { api, deployment, kube, launch, page, until } from './open.mjs';

const into = process.argv[2] ?? 'docs/images';
mkdirSync(into, { recursive: true });
const deployments = '/apis/apps/v1/namespaces/default/deployments';
// The story has to have something to show: what was bought, replaced for its price and taken back.
await until('the cloud takes a machine back', 300, async () => (await api('activity')).episodes.some((one) => one.entries[0].code === 'Interrupted'));
const north = { nodeSelector: { 'topology.kubernetes.io/zone': 'north-9' } };
await kube('POST', deployments, deployment('analytics', 4, north, '2')).catch(() => {});
await kube('POST', deployments, deployment('import', 2, {}, '300')).catch(() => {});
await until('verdicts', 60, async () => (await api('demand')).groups.filter((one) => one.pools.length).length >= 2);
const browser = await launch();
const shot = async (name, path, width, scheme, height) => {
  const tab = await browser.newPage({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: 1 });
  await tab.goto(page + path);
  await tab.waitForTimeout(700);
  await tab.screenshot({ path: `${into}/${name}.png` });
  await tab.close();
};
const panels = [['overview', '/'], ['demand', '/demand'], ['nodes', '/nodes'], ['activity', '/activity'], ['market', '/market'],
  ['what-if', '/what-if?pods=30&cpu=1&memory=2Gi']];
for (const [name, path] of panels) {
  await shot(name, path, 1180, 'light', name === 'activity' ? 770 : 860);
  await shot(`${name}-phone`, path, 390, 'light', 844);
}
await shot('overview-dark', '/', 1180, 'dark', 860);
await browser.close();
