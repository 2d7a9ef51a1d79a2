package explain

import (
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for in, want := range map[string]string{
		"shop/web":                      "web.shop.svc.clusterset.local. mcs",
		"web.shop":                      "web.shop.svc.clusterset.local. mcs",
		"Web.Shop.":                     "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc":                  "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc.":                 "web.shop.svc. mcs", // the root zone
		"web.shop.svc.clusterset.local": "web.shop.svc.clusterset.local. mcs",
		"nginx.default.svc.global":      "nginx.default.svc.global. global",
		"NGINX.default.svc.GLOBAL.":     "nginx.default.svc.global. global",
		"db-0.beijing.db.shop.svc.clusterset.local": "db-0.beijing.db.shop.svc.clusterset.local. mcs",
		"_http._tcp.web.shop.svc":                   "_http._tcp.web.shop.svc.clusterset.local. mcs",
		"svc.svc.svc.clusterset.local":              "svc.svc.svc.clusterset.local. mcs",
		"svc.svc":                                   "svc.svc.svc.clusterset.local. mcs",
		"a.b.c":                                     "isn't the name of a service",
		"web":                                       "isn't the name of a service",
		"":                                          "isn't the name of a service",
		"svc.global":                                "svc.global.svc.clusterset.local. mcs",
		"shop/":                                     "must be a DNS label",
		"*.shop.svc.global":                         "must be a DNS label",
		"shop/web.v1":                               "must be a DNS label",
		"shop.svc.clusterset.local":                 "isn't the name of a service",
		strings.Repeat("a", 64) + ".shop.svc.global": "must be a DNS label",
	} {
		n, err := ParseName(in)
		got := n.String() + " " + n.Dialect.String()
		if err != nil {
			got = err.Error()
		}
		if right := got == want || err != nil && strings.Contains(got, want); !right {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%q: the error isn't one line: %q", in, got)
		}
	}
}
