// A browser on the page of a running demo, and its cluster's API. Addresses come from the environment.
import { chromium } from 'playwright-core';

export const page = process.env.JOINER_PAGE;
export const cluster = process.env.JOINER_CLUSTER;

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
  });
}

// A request to the page's own API.
export async function api(path, options) {
  const answer = await fetch(`${page}/api/v1/${path}`, options);
  return answer.json();
}

// A request to the cluster.
export async function kube(method, path, body) {
  const kind = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const answer = await fetch(cluster + path, { method, headers: { 'content-type': kind }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// Asks again until the answer is true, or the time is up.
export async function until(what, seconds, ask) {
  const end = Date.now() + seconds * 1000;
  let last;
  while (Date.now() < end) {
    last = await ask();
    if (last === true) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${what}: not within ${seconds} s; last: ${JSON.stringify(last)}`);
}

// A deployment in the namespace default.
export function deployment(name, replicas, spec = {}, cpu = '250m') {
  return {
    apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name },
    spec: {
      replicas, selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { ...spec, containers: [{ name: 'main', image: 'example.com/main:1', resources: { requests: { cpu, memory: '256Mi' } } }] },
      },
    },
  };
}
