// The page in a real browser, against a running demo. Prints a line for every check; ends with 1 if one failed.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { api, cluster, deployment, kube, launch, page, until } from './open.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PANELS = ['/', '/demand', '/nodes', '/activity', '/market', '/what-if', '/why/pool/default'];
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const tab = await context.newPage();
const complaints = [];
const elsewhere = [];
tab.on('console', (said) => { if (said.type() === 'error') complaints.push(said.text()); });
tab.on('pageerror', (error) => complaints.push(String(error)));
tab.on('dialog', async (dialog) => { complaints.push(`a dialog: ${dialog.message()}`); await dialog.dismiss(); });
context.on('request', (request) => {
  const url = request.url();
  if (!url.startsWith(page) && !url.startsWith('data:')) elsewhere.push(url);
});

let failed = 0;
async function check(name, body) {
  try {
    await body();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.message}`);
  }
}
const text = (selector) => tab.locator(selector).first().textContent();
const equal = (left, right) => {
  if (left !== right) throw new Error(`${JSON.stringify(left)} is not ${JSON.stringify(right)}`);
};
const deployments = '/apis/apps/v1/namespaces/default/deployments';

await until('nodes come', 90, async () => (await api('overview')).nodes?.ready > 0);

await check('the overview shows what the API says', async () => {
  await tab.goto(page + '/');
  await until('the same figures', 15, async () => {
    const view = await api('overview');
    const counts = view.nodes;
    const all = counts.ready + counts.starting + counts.coming + counts.leaving + counts.notReady;
    const shown = { nodes: await text('#nodes'), waiting: await text('#waiting'), cost: (await text('#cost')).trim() };
    const cost = Number(shown.cost.replace(/[^0-9.]/g, ''));
    const same = shown.nodes === String(all) && shown.waiting === String(view.podsWaiting)
      && Math.abs(cost - view.cost.value) < 0.006;
    return same || { shown, all, waiting: view.podsWaiting, cost: view.cost };
  });
});

await check('a pod that fits nowhere is told with a verdict for its pool and what would help', async () => {
  const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [
    { matchExpressions: [{ key: 'topology.kubernetes.io/zone', operator: 'In', values: ['mars-1'] }] }] } } };
  await kube('POST', deployments, deployment('astronaut', 3, { affinity }));
  await tab.goto(page + '/demand?q=astronaut');
  await until('the verdict', 30, async () => (await api('demand?q=astronaut')).groups[0]?.pools.length > 0);
  await until('the verdict on the page', 5, async () => (await tab.locator('.demand.unplaced table').count()) === 1 || await text('main'));
  const group = (await api('demand?q=astronaut')).groups[0];
  equal(group.count, 3);
  equal(group.pools[0].code, 'Requirement');
  const shown = await text('.demand.unplaced');
  for (const part of ['3×', 'default', 'Requirement', group.pools[0].remedy]) {
    if (!shown.includes(part)) throw new Error(`${part} is not in ${shown}`);
  }
});

await check('hostile text from the cluster is shown as text and runs no script', async () => {
  const hostile = '<img src=x onerror=alert(1)><script>alert(2)</script>';
  // Names and labels must be plain; what refers to something may be anything, and comes back in verdicts and events.
  await kube('POST', '/apis/karpenter.sh/v1/nodepools', {
    apiVersion: 'karpenter.sh/v1', kind: 'NodePool', metadata: { name: 'hostile' },
    spec: { template: { spec: { requirements: [], nodeClassRef: { group: 'joiner.dev', kind: 'SimNodeClass', name: hostile } } } },
  });
  const affinity = { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [
    { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['nowhere'] }] } }] },
  nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [
    { matchExpressions: [{ key: 'example.com/where', operator: 'In', values: [hostile] }] }] } } };
  await kube('POST', deployments, deployment('nasty', 1, { affinity }));
  await until('the pod waits', 30, async () => (await api('demand?q=nasty')).groups.length === 1);
  const pod = (await api('demand?q=nasty')).groups[0].names[0];
  for (const path of ['/', '/why/pool/hostile', '/demand', '/activity?q=hostile', `/why/pod/default/${pod}`]) {
    await tab.goto(page + path);
    await until(`the text on ${path}`, 20, async () => {
      await tab.reload();
      return (await text('main')).includes(hostile) || await text('main');
    });
    equal(await tab.locator('main img').count(), 0);
    equal(await tab.locator('main script').count(), 0);
  }
  await kube('DELETE', `${deployments}/nasty`);
  await kube('DELETE', '/apis/karpenter.sh/v1/nodepools/hostile');
});

await check('updates arrive within two seconds, without a reload', async () => {
  // Other pods come and go with the story; these stay.
  await tab.goto(page + '/demand?q=astronaut');
  await tab.evaluate(() => { window.stayed = true; });
  const waiting = async () => (await api('demand?q=astronaut')).groups.reduce((sum, group) => sum + group.count, 0);
  equal(await waiting(), 3);
  // The stream has to be open before the clock runs.
  await until('the stream', 10, async () => (await tab.locator('#live.on').count()) === 1);
  await kube('PATCH', `${deployments}/astronaut`, { spec: { replicas: 40 } });
  await until('pods wait', 20, async () => (await waiting()) === 40);
  const begun = Date.now();
  await until('the page knows', 2, async () => {
    const shown = await tab.locator('.demand .count').allTextContents();
    return shown.reduce((sum, count) => sum + Number.parseInt(count, 10), 0) === 40 || shown;
  });
  console.log(`   after ${Date.now() - begun} ms`);
  equal(await tab.evaluate(() => window.stayed), true);
});

await check('nodes are filtered as one types, and the address keeps the filter', async () => {
  await tab.goto(page + '/nodes');
  const all = (await api('nodes')).total;
  const name = (await api('nodes')).nodes[0].name;
  await tab.keyboard.press('/');
  await tab.keyboard.type(name);
  await until('one node', 5, async () => (await tab.locator('article.node').count()) === 1 || await text('#count'));
  equal(new URL(tab.url()).searchParams.get('q'), name);
  await tab.reload();
  equal(await tab.locator('article.node').count(), 1);
  equal(await tab.inputValue('#q'), name);
  const view = (await api(`nodes?pods=true&q=${name}`)).nodes[0];
  const card = await text('article.node');
  for (const part of [view.instanceType, view.zone]) {
    if (!card.includes(part)) throw new Error(`${part} is not in ${card}`);
  }
  await tab.fill('#q', '"><script>alert(2)</script>');
  await until('no node', 5, async () => (await tab.locator('article.node').count()) === 0);
  await tab.reload();
  equal(await tab.locator('main script').count(), 0);
  if (all < 1) throw new Error('there are no nodes');
});

await check('the activity tells purchases with their price', async () => {
  await tab.goto(page + '/activity');
  const view = await api('activity');
  const launch = view.episodes.find((one) => one.entries[0].code === 'Launch');
  if (!launch) throw new Error(`no launch in ${JSON.stringify(view)}`);
  const shown = await text('.episodes');
  if (!shown.includes(launch.entries[0].sentence)) throw new Error(`${launch.entries[0].sentence} is not shown`);
});

await check('the market shows what is held first', async () => {
  await tab.goto(page + '/market');
  const view = await api('market');
  if (!(view.shown[0].held > 0)) throw new Error(JSON.stringify(view.shown[0]));
  const row = await text('tbody tr');
  for (const part of [view.shown[0].instanceType, view.shown[0].zone]) {
    if (!row.includes(part)) throw new Error(`${part} is not in ${row}`);
  }
});

await check('what-if prices pods that come and changes nothing', async () => {
  const nodes = (await api('nodes')).total;
  await tab.goto(page + '/what-if');
  await tab.fill('[name=pods]', '30');
  await tab.fill('[name=cpu]', '1');
  await tab.click('button[type=submit]');
  await tab.waitForSelector('#outcome', { timeout: 30000 });
  const shown = await text('#outcome');
  if (!/an hour more/.test(shown)) throw new Error(shown);
  if ((await tab.locator('tbody tr').count()) < 1) throw new Error('no machine to buy is shown');
  const pods = (await (await fetch(`${cluster}/api/v1/pods`)).json()).items;
  equal(pods.filter((pod) => pod.metadata.name.startsWith('what-if')).length, 0);
  if (nodes < 1) throw new Error('there are no nodes');
});

await check('a pod is explained', async () => {
  const group = (await api('demand?q=astronaut')).groups[0];
  await tab.goto(`${page}/why/pod/default/${group.names[0]}`);
  const shown = await text('main');
  if (!shown.includes('pending') || !shown.includes('Requirement')) throw new Error(shown);
});

await check('the last problem can be downloaded, and is anonymous when asked', async () => {
  const open = JSON.stringify(await api('problem'));
  const hidden = JSON.stringify(await api('problem?anonymous=true'));
  if (!open.includes('astronaut')) throw new Error('the problem does not have the pods');
  if (hidden.includes('astronaut')) throw new Error('the anonymous problem has names');
});

await check('no panel is wider than a phone', async () => {
  const phone = await context.newPage();
  await phone.setViewportSize({ width: 390, height: 844 });
  for (const panel of PANELS) {
    await phone.goto(page + panel);
    const [wide, room] = await phone.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    if (wide > room) throw new Error(`${panel}: ${wide} in ${room}`);
  }
  await phone.close();
});

for (const scheme of ['light', 'dark']) {
  await check(`the page is accessible, ${scheme} (axe)`, async () => {
    await tab.emulateMedia({ colorScheme: scheme });
    for (const panel of PANELS) {
      await tab.goto(page + panel);
      await tab.evaluate(axe);
      const found = await tab.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const said = found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.any?.[0]?.message ?? ''}`).join(' | ')}`);
      if (said.length) throw new Error(`${panel}: ${said.join('; ')}`);
    }
  });
}

await check('the keyboard reaches the content first and the theme is kept', async () => {
  await tab.goto(page + '/');
  await tab.keyboard.press('Tab');
  equal(await tab.evaluate(() => document.activeElement.className), 'skip');
  await tab.click('#theme');
  const theme = await tab.evaluate(() => document.documentElement.dataset.theme);
  await tab.reload();
  equal(await tab.evaluate(() => document.documentElement.dataset.theme), theme);
});

await check('no error was said', async () => equal(complaints.join('; '), ''));
await check('nothing was asked of another host', async () => equal(elsewhere.join('; '), ''));
await browser.close();
console.log(failed === 0 ? 'all passed' : `${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
