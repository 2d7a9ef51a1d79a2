// Command goat draws the ASCII drawing on its standard input as an SVG, for light and dark pages.
package main

import (
	"fmt"
	"os"

	"github.com/bep/goat"
)

func main() {
	svg := goat.BuildSVG(os.Stdin)
	svg.Body = "<style>svg{color:#1f2328;font-size:13px}@media(prefers-color-scheme:dark){svg{color:#f0f6fc}}</style>\n" + svg.Body
	fmt.Print(svg)
}
