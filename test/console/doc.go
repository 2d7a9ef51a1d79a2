// Package console tests the pages of `clusterset console` in a real Chromium, driven over the DevTools protocol. The console
// is the real binary. It reads real API servers (test/kube, test/fleet), or a hub's records from files.
//
//	page := open(t, theSet(t), "#/services?q=web")  // a tab of a browser
//	page.sees("1 of 41 services")
//	page.click("a", "shop/web")
//	page.accessible()                               // axe-core finds nothing, in light and in dark
//
// A tab fails its test if the page logs an error, violates its Content-Security-Policy, or sends a request to another host.
// Tests don't sleep: they poll the document for what they expect.
//
// Without Chromium the tests are skipped and say so. CLUSTERSET_CHROMIUM=required, which CI sets, makes them fail instead. With
// PICTURES=1 in the environment, the test of the pictures rewrites docs/pictures.
package console
