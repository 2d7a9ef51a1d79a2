package console

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = map[string]string{
	"map":     "#/map?cluster=beijing-1",
	"service": "#/service/payments/api?if=down+beijing-1&at=tianjin%2Fcn-north-1b%2Fcn-north&by=shanghai-1",
	"whatif":  "#/whatif?if=down+beijing-1",
}

const maxPicture = 250 << 10

// The pictures in the documentation exist and are small enough. PICTURES=1 takes them again from the page that the tests use.
func TestPictures(t *testing.T) {
	take := os.Getenv("PICTURES") != ""
	var p *tab
	if take {
		p = open(t, theSet(t), "#/map")
		p.size(1280, 800)
	}
	for name, fragment := range pictures {
		for _, theme := range []string{"light", "dark"} {
			path := filepath.Join(root, "docs", "pictures", "console-"+name+"-"+theme+".png")
			if take {
				p.goTo(fragment + "&theme=" + theme)
				p.until(`document.documentElement.dataset.theme === ` + quote(theme))
				p.until(`!document.querySelector("main .loading") && !document.querySelector("[aria-busy=true]") && !document.querySelector(".whatifsum > .faint") && !!document.querySelector(".panel, #result")`)
				p.do(`document.activeElement.blur()`)
				picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				if err = errors.Join(err, os.WriteFile(path, picture, 0o644)); err != nil { //nolint:gosec // a document
					t.Fatal(err)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Size() > maxPicture {
				t.Errorf("%s: %v; want at most %d bytes", path, err, maxPicture)
			}
		}
	}
}
