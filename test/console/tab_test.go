package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/clusterset/clusterset/test/kube"
)

// tab is a browser's tab that shows a console.
type tab struct {
	testing.TB
	ctx  context.Context
	base string // the console's address, http://127.0.0.1:PORT

	mu       sync.Mutex
	wrong    []string // the page's violations
	offline  bool     // failed requests are no violation
	requests int
}

// open opens a console's page with a fragment, and waits until it shows its data.
func open(t testing.TB, c *consoled, fragment string) *tab {
	t.Helper()
	ctx, stop := browser(t)
	base, _, _ := strings.Cut(c.url, "/?")
	p := &tab{TB: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		if t.Failed() {
			text, err := chromedp.Run(ctx, chromedp.Evaluate[string](visible))
			t.Logf("%s shows: %s %v", p.address(), text, err)
		}
		stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.wrong {
			t.Error(w)
		}
		if p.requests == 0 {
			t.Error("no request was seen: what leaves isn't watched")
		}
	})
	err := chromedp.Listen(ctx, p.watch)
	_, requests := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, logs := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, errs := chromedp.Call(ctx, cdpruntime.Enable, cdp.Empty{})
	if err := errors.Join(err, requests, logs, errs); err != nil {
		t.Fatal(err)
	}
	p.size(1360, 900)
	p.visit(c.url + fragment)
	p.shown()
	return p
}

// shown waits until the page shows its data.
func (p *tab) shown() {
	p.Helper()
	p.until(`!document.querySelector("main .loading") && !!document.querySelector("main h1")`)
}

// watch records errors in the page and requests to other hosts.
func (p *tab) watch(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bad := func(format string, args ...any) { p.wrong = append(p.wrong, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests++
		if !strings.HasPrefix(e.Request.URL, p.base+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			bad("the page asks for %s, which is not of the console", e.Request.URL)
		}
	case *cdpruntime.EventExceptionThrown:
		details, _ := json.Marshal(e.ExceptionDetails)
		bad("the page throws: %s", details)
	case *cdpruntime.EventConsoleAPICalled:
		if slices.Contains([]string{"error", "warning", "assert"}, string(e.Type)) {
			args, _ := json.Marshal(e.Args)
			bad("the page logs: %s", args)
		}
	case *log.EventEntryAdded:
		if p.offline && e.Entry.Source == log.EntrySourceNetwork {
			return
		}
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning || e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceViolation {
			bad("the browser logs (%s): %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
}

// mayFail allows the page's requests to fail from here on, as when the server is gone.
func (p *tab) mayFail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offline = true
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, kube.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

func (p *tab) visit(address string) {
	p.Helper()
	p.run(chromedp.Navigate(address))
}

// goTo changes the fragment, as a user does who edits the address.
func (p *tab) goTo(fragment string) {
	p.Helper()
	p.do("location.hash = " + quote(fragment))
}

// do runs a script in the page.
func (p *tab) do(script string) {
	p.Helper()
	p.run(chromedp.Evaluate[chromedp.Void]("void (" + script + ")"))
}

// eval evaluates an expression in the page and returns its value, or that of its promise.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, kube.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatal(err)
	}
	return value
}

// until waits until an expression in the page is true.
func (p *tab) until(expression string) {
	p.Helper()
	kube.Eventually(p, func() error {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err != nil {
			return err
		}
		if !is {
			return fmt.Errorf("%s: not %s", p.address(), expression)
		}
		return nil
	})
}

const visible = `(document.querySelector("dialog[open]") ?? document.body).innerText.replace(/\s+/g, " ")`

// sees waits until the page shows each text.
func (p *tab) sees(texts ...string) {
	p.Helper()
	for _, text := range texts {
		p.until(fmt.Sprintf("%s.includes(%s)", visible, quote(text)))
	}
}

// seesNot waits until the page doesn't show the text.
func (p *tab) seesNot(text string) {
	p.Helper()
	p.until(fmt.Sprintf("!%s.includes(%s)", visible, quote(text)))
}

// found returns an expression for the first element of a selector whose text, label or title contains text.
func found(selector, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => (e.innerText ?? "").replace(/\s+/g, " ").includes(%[2]s) || (e.ariaLabel || e.title || "").includes(%[2]s))`, quote(selector), quote(text))
}

// click waits for an element with the text and clicks it with the mouse.
func (p *tab) click(selector, text string) {
	p.Helper()
	type point struct {
		X, Y  float64
		Wrong string
	}
	var at point
	kube.Eventually(p, func() (err error) {
		at, err = chromedp.Run(p.ctx, chromedp.Evaluate[point](fmt.Sprintf(`(() => {
			const e = %s;
			if (!e) return { Wrong: "there is none" };
			e.scrollIntoView({ block: "center", inline: "center" });
			const r = e.getBoundingClientRect(), X = r.x + r.width / 2, Y = r.y + r.height / 2;
			const top = document.elementFromPoint(X, Y);
			return { X, Y, Wrong: e.contains(top) || top?.contains(e) ? "" : "it is covered by " + top?.outerHTML.slice(0, 200) };
		})()`, found(selector, text))))
		if err == nil && at.Wrong != "" {
			err = fmt.Errorf("click %s %q at %s: %s", selector, text, p.address(), at.Wrong)
		}
		return err
	})
	p.run(chromedp.MouseClickXY(at.X, at.Y))
}

// press presses keys, which are named as in package kb, or types a text.
func (p *tab) press(keys ...string) {
	p.Helper()
	for _, k := range keys {
		p.run(chromedp.KeyEvent(k))
	}
}

// shortcut presses a character key. The page may handle it before it becomes text.
func (p *tab) shortcut(key string) {
	p.Helper()
	for _, params := range []input.DispatchKeyEventParams{{Type: "keyDown", Key: key, Text: key}, {Type: "keyUp", Key: key}} {
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, params); err != nil {
			p.Fatal(err)
		}
	}
}

// fill sets the text of a field.
func (p *tab) fill(selector, text string) {
	p.Helper()
	p.until(fmt.Sprintf("document.querySelector(%s)", quote(selector)))
	p.do(fmt.Sprintf("document.querySelector(%[1]s).focus(), document.querySelector(%[1]s).select?.()", quote(selector)))
	if _, err := chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		p.Fatal(err)
	}
}

// choose selects an option of a select element.
func (p *tab) choose(selector, value string) {
	p.Helper()
	p.until(fmt.Sprintf("document.querySelector(%s)", quote(selector)))
	p.do(fmt.Sprintf(`((e) => { e.value = %s; e.dispatchEvent(new Event("change", { bubbles: true })); })(document.querySelector(%s))`, quote(value), quote(selector)))
}

func (p *tab) address() string {
	address, err := chromedp.Run(p.ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return address
}

// dark sets the colour scheme that the system prefers.
func (p *tab) dark(dark bool) {
	p.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}); err != nil {
		p.Fatal(err)
	}
}

// size sets the window's size in CSS pixels. At 200 % zoom a window has half as many in each direction.
func (p *tab) size(width, height int64) {
	p.Helper()
	p.run(chromedp.EmulateViewport(width, height))
}

// narrow shows the page on a phone: only tables and the matrix scroll sideways.
func (p *tab) narrow() {
	p.Helper()
	p.size(390, 844)
	p.until(`document.documentElement.scrollWidth <= innerWidth`)
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(b)
}
