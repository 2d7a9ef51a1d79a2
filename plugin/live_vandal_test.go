package clusterset_test

import (
	"context"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// vandal is a plugin at the top of the chain that overwrites every record of a reply after the reply was sent. lookout, directly before
// clusterset, tells it which records to overwrite, because other plugins add records of their own, or keep a reply until clusterset has
// returned. The receiver of a reply may do anything with it, and that must not affect any other reply.
type (
	vandal  struct{ plugin.Handler }
	lookout struct{ plugin.Handler }
)

func init() {
	add := func(name, above string, put plugin.Plugin) {
		plugin.Register(name, func(c *caddy.Controller) error {
			dnsserver.GetConfig(c).AddPlugin(put)
			return nil
		})
		at := slices.Index(dnsserver.Directives, above)
		dnsserver.Directives = slices.Insert(slices.Clone(dnsserver.Directives), at, name)
	}
	add("vandal", "prometheus", func(next plugin.Handler) plugin.Handler { return vandal{next} })
	add("lookout", "clusterset", func(next plugin.Handler) plugin.Handler { return lookout{next} })
}

type spoils struct{}

func (v vandal) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	var records []dns.RR
	code, err := v.Handler.ServeDNS(context.WithValue(ctx, spoils{}, &records), w, r)
	for _, rr := range records {
		rr.Header().Name, rr.Header().Ttl = "vandal.", 666
		switch rr := rr.(type) {
		case *dns.A:
			clear(rr.A)
		case *dns.AAAA:
			clear(rr.AAAA)
		case *dns.SRV:
			rr.Target, rr.Port = "vandal.", 666
		case *dns.SOA:
			rr.Ns, rr.Serial = "vandal.", 666
		}
	}
	return code, err
}

func (vandal) Name() string { return "vandal" }

func (l lookout) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if records, ok := ctx.Value(spoils{}).(*[]dns.RR); ok {
		w = lookoutWriter{w, records}
	}
	return l.Handler.ServeDNS(ctx, w, r)
}

func (lookout) Name() string { return "lookout" }

type lookoutWriter struct {
	dns.ResponseWriter
	records *[]dns.RR
}

func (w lookoutWriter) WriteMsg(m *dns.Msg) error {
	*w.records = slices.Concat(m.Answer, m.Ns, m.Extra)
	return w.ResponseWriter.WriteMsg(m)
}
