package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Every control can be reached and used with the keyboard, and the focus is visible.
func TestKeyboard(t *testing.T) {
	p := open(t, theSet(t), "#/map")
	p.sees("12 clusters")
	stops := map[string]bool{}
	for range 30 {
		p.press(kb.Tab)
		name := eval[string](p, `((e) => (e.ariaLabel || e.innerText || e.placeholder || e.tagName).replace(/\s+/g, " ").trim())(document.activeElement)`)
		if stops[name] || eval[bool](p, `document.activeElement === document.body`) {
			break
		}
		stops[name] = true
		if !eval[bool](p, `((e) => [e, e.closest(".row")].some((x) => x && parseFloat(getComputedStyle(x).outlineWidth) >= 1 && getComputedStyle(x).outlineStyle !== "none"))(document.activeElement)`) {
			t.Errorf("it isn't seen that %q has the focus", name)
		}
	}
	for _, want := range []string{"Skip to the content", "Map", "Services", "What if", "Dark", "Keys", "Find a cluster"} {
		if !stops[want] {
			t.Errorf("Tab doesn't get to %s, but to %v", want, stops)
		}
	}
	p.do(`document.activeElement.blur()`)
	p.do(`document.querySelector(".skip").focus()`)
	p.press(kb.Enter)
	p.until(`document.activeElement.id === "main"`)

	// The map is a single tab stop, with arrow keys inside.
	p.do(`document.querySelector('.tile[tabindex="0"]').focus()`)
	p.press(kb.ArrowRight, kb.ArrowRight)
	p.until(`document.activeElement.dataset.row === "2"`)
	p.press(kb.End)
	p.until(`document.activeElement.dataset.row === "11"`)
	p.press(kb.Home, kb.Enter)
	p.until(`document.querySelector(".panel h2")?.innerText === document.activeElement.querySelector("b").innerText`)
	p.press(kb.Escape)
	p.until(`!document.querySelector(".panel")`)

	// Single keys are shortcuts, unless they are switched off.
	p.shortcut("2")
	p.until(`document.activeElement.innerText === "Services" && document.activeElement.tagName === "H1"`)
	p.shortcut("?")
	p.sees("Single keys are shortcuts")
	p.accessible()
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]")`)
	p.shortcut("t")
	p.until(`document.documentElement.dataset.theme === "light"`)
	p.shortcut("/")
	p.until(`document.activeElement.type === "search"`)
	p.press("1")
	p.sees("No service matches.") // in a field, keys are text
	p.goTo("#/services?keys=off")
	p.until(`document.querySelector("main .lead").innerText === "14 services"`)
	p.do(`document.activeElement.blur()`)
	p.shortcut("1")
	p.until(`location.hash.startsWith("#/services")`)
	p.goTo("#/services")

	// Arrow keys work in the rows of a list, and in the matrix of a service.
	p.sees("14 services")
	p.do(`document.querySelector('.rows [tabindex="0"]').focus()`)
	p.press(kb.End)
	p.until(`document.activeElement.innerText.includes("web")`)
	p.press(kb.Enter)
	p.until(`document.querySelector(".matrix")`)
	p.do(`document.querySelector('.matrix [tabindex="0"]').focus()`)
	p.press(kb.ArrowDown, kb.ArrowRight, kb.ArrowRight)
	p.until(`document.activeElement.dataset.at === "1,2"`)
	p.press(kb.Enter)
	p.sees("Why:")
	p.press(kb.Escape)
	p.seesNot("Why:")
}

// Views are readable at 200 % zoom and in narrow windows: only tables and the matrix scroll sideways, and everything stays
// accessible.
func TestZoomAndNarrowWindows(t *testing.T) {
	c := theSet(t)
	p := open(t, c, "#/map")
	for _, size := range [][2]int64{{640, 450}, {320, 640}} { // 1280 × 900 at 200 %, and at 400 %
		p.size(size[0], size[1])
		for _, fragment := range []string{"#/map?cluster=tianjin", "#/services", "#/service/shop/web?at=beijing-1%2Fcn-north-1a%2Fcn-north&ends=1", "#/whatif?if=down+beijing-1"} {
			p.goTo(fragment)
			p.shown()
			p.until(`document.documentElement.scrollWidth <= innerWidth`)
			if size[0] == 320 {
				p.accessible()
			}
		}
	}
	// On a phone, the list of services has everything that it has elsewhere.
	p.goTo("#/services")
	p.narrow()
	for selector, text := range map[string]string{".by": "3 beijing-1, guangzhou, shanghai-1", ".type": "ClusterSetIP", ".ready": "12 of 15", ".state": "prefer cluster zone region"} {
		p.until(fmt.Sprintf(`((e) => e && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().right <= innerWidth && e.innerText.replace(/\s+/g, " ").includes(%s))(%s.querySelector(%s))`,
			quote(text), found(".rows .row", "payments/api"), quote(selector)))
	}
	p.accessible()
}

// Names from objects and from the address are shown as text, whatever they contain.
func TestHostileNames(t *testing.T) {
	const script, image = `<script>window.hacked=1</script>`, `"><img src=x onerror="window.hacked=1">`
	p := open(t, start(t, "--manifests", "testdata/hostile"), "#/map?cluster=beijing")
	p.sees(script, image, "<b>v1</b>{{7*7}}${7*7}")
	p.goTo("#/service/shop/web")
	p.sees(script + " / " + image)
	p.goTo("#/whatif?if=" + "place+shanghai+region=" + strings.ReplaceAll(`%3Cimg%20src=x%20onerror=hacked%3E`, "%", "%25"))
	p.sees("place shanghai region <img src=x onerror=hacked>")
	p.mayFail()
	for _, fragment := range []string{"#/services?q=" + script, "#/service/" + image + "/x", "#/" + script, "#/map?find=%&cluster=" + image, "#/whatif?if=" + script, "#/map?theme=" + script} {
		p.goTo(fragment)
		p.shown()
	}
	if eval[bool](p, `!!window.hacked || !!document.querySelector("main script, main img")`) {
		t.Error("a name became markup")
	}
}

// The theme follows the system unless the address specifies one. The page stores nothing.
func TestThemes(t *testing.T) {
	p := open(t, theSet(t), "#/map")
	ground := func() string { return eval[string](p, `getComputedStyle(document.body).backgroundColor`) }
	light := ground()
	p.dark(true)
	if ground() == light {
		t.Error("the page doesn't follow a dark system")
	}
	p.goTo("#/map?theme=light")
	p.until(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, light))
	p.accessible()
	if n := eval[int](p, `localStorage.length + sessionStorage.length + document.cookie.length`); n != 0 {
		t.Error("the page stores something")
	}
	p.run(chromedp.Reload())
	p.until(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, light))
}
