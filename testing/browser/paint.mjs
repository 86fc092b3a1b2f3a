// How soon panels are painted first in a browser that has never seen them: node paint.mjs PATH...
// Prints a line of JSON for each: milliseconds until something, and until all of it, is there.
import { launch, page } from './open.mjs';

const browser = await launch();
// The browser itself has to wake up once.
const first = await browser.newPage();
await first.goto(`${page}/assets/page.css`);
await first.close();
for (const path of process.argv.slice(2)) {
  // Older than what the server keeps for a second.
  await new Promise((done) => setTimeout(done, 1500));
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const tab = await context.newPage();
  await tab.goto(page + path, { waitUntil: 'load' });
  const measured = await tab.evaluate(async () => {
    const painted = () => performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint');
    while (!painted()) await new Promise((done) => setTimeout(done, 10));
    const [loaded] = performance.getEntriesByType('navigation');
    return { paint: Math.round(painted().startTime), answer: Math.round(loaded.responseEnd), load: Math.round(loaded.loadEventEnd) };
  });
  console.log(JSON.stringify({ path, ...measured }));
  await context.close();
}
await browser.close();
