package main

import (
	"os"
	"strings"
	"testing"
)

// Everything in a release has a known and allowed licence, in all programs on all platforms. The notices contain the licence texts.
func TestLicences(t *testing.T) {
	parts, err := partsOf(t.Context(), []platform{{linux, "amd64"}, {linux, "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(notices(parts))
	for _, want := range []string{
		"\npreact ", "\nhtm ", "\nstd ", "\ngithub.com/coredns/coredns ", // parts
		"github.com/klauspost/compress v", ", zstd/internal/xxhash/LICENSE.txt\n", // the licence of a folder inside a module
		"Copyright (c) 2015-present Jason Miller", "Copyright 2009 The Go Authors", "Prometheus instrumentation library for Go applications",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the notices don't have %q", want)
		}
	}
	for ref, p := range parts.all() {
		if !strings.Contains(text, "\n"+p.name+" "+p.version+": "+strings.Join(p.licences, ", ")+"\n") {
			t.Errorf("the notices don't list %s", ref)
		}
	}
}

func TestLicencesThatEndARelease(t *testing.T) {
	mit, err := os.ReadFile(libDir + "/preact.LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version. This program is
distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS
FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details. You should have received a copy of the GNU General Public
License along with this program. If not, see <https://www.gnu.org/licenses/>.`
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"allowed":        {map[string]string{"LICENSE": string(mit)}, ""},
		"none":           {map[string]string{"NOTICE": "Made by us."}, "a@v1 has no licence"},
		"unknown":        {map[string]string{"LICENSE": "You may look at it."}, "a@v1: LICENSE is not the text of a known licence"},
		"copyleft":       {map[string]string{"COPYING": gpl}, "a@v1 is under GPL-3.0-or-later, which a release may not contain"},
		"copyleft below": {map[string]string{"LICENSE": string(mit), "third_party/b/LICENSE": gpl}, "GPL-3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := part{name: "a", version: "v1", files: c.files}
			if err := p.identify(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
