package console

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = map[string]string{
	"map":     "#/map?cluster=beijing-1",
	"service": "#/service/payments/api?if=down+beijing-1&at=tianjin%2Fcn-north-1b%2Fcn-north&by=shanghai-1",
	"whatif":  "#/whatif?if=down+beijing-1",
}

const maxPicture = 150 << 10

// smaller reduces a picture to its 256 most frequent colours. The difference isn't visible.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.Color]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			count[img.At(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(img.Bounds(), frequent[:min(256, len(frequent))])
	draw.Draw(few, few.Bounds(), img, image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The pictures in the documentation exist and are small enough. PICTURES=1 takes them again from the page that the tests use.
func TestPictures(t *testing.T) {
	dir := filepath.Join(root, "docs", "pictures")
	var p *tab
	for name, fragment := range pictures {
		for _, theme := range []string{"light", "dark"} {
			path := filepath.Join(dir, "console-"+name+"-"+theme+".png")
			if os.Getenv("PICTURES") != "" {
				if p == nil {
					p = open(t, theSet(t), "#/map")
					p.size(1280, 800)
				}
				p.goTo(fragment + "&theme=" + theme)
				p.until(`document.documentElement.dataset.theme === ` + quote(theme))
				p.until(`!document.querySelector("main .loading") && !document.querySelector("[aria-busy=true]") && !document.querySelector(".whatifsum > .faint") && !!document.querySelector(".panel, #result")`)
				p.do(`document.activeElement.blur()`)
				picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				if err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, smaller(t, picture), 0o644); err != nil { //nolint:gosec // a document
					t.Fatal(err)
				}
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > maxPicture {
				t.Errorf("%s has %d bytes; want at most %d", path, info.Size(), maxPicture)
			}
		}
	}
}
