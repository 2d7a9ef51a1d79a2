package clusterset

import (
	"context"
	"strings"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"

	"github.com/clusterset/clusterset/internal/index"
)

// Metadata implements metadata.Provider. The values describe what the question's name stands for, whatever the query
// type. A value that doesn't apply is empty. Each value is looked up when another plugin asks for it, so the snapshot
// may be newer than the one that gave the answer.
func (c *ClusterSet) Metadata(ctx context.Context, state request.Request) context.Context {
	name := strings.ToLower(state.QName())
	z := c.zones.match(name)
	if z == nil || z.passesOn(name) {
		return ctx
	}
	set := func(label string, value func(*index.Lookup) string) {
		metadata.SetValueFunc(ctx, pluginName+"/"+label, func() string {
			snapshot := c.index.Snapshot()
			if snapshot == nil {
				return ""
			}
			var l index.Lookup
			c.lookup(&l, z, snapshot, name)
			return value(&l)
		})
	}
	metadata.SetValueFunc(ctx, pluginName+"/zone", func() string { return z.name })
	metadata.SetValueFunc(ctx, pluginName+"/dialect", func() string { return z.dialect.String() })
	set("service", func(l *index.Lookup) string { return l.Key.Name() })
	set("namespace", func(l *index.Lookup) string { return l.Key.Namespace() })
	set("port", func(l *index.Lookup) string {
		if l.Port == nil {
			return ""
		}
		return l.Port.Name
	})
	set("protocol", func(l *index.Lookup) string {
		if l.Port == nil {
			return ""
		}
		return l.Port.Protocol.String()
	})
	set("endpoint", func(l *index.Lookup) string {
		if l.Kind == index.HostName {
			return l.Labels
		}
		return ""
	})
	set("tier", func(l *index.Lookup) string { return tierOf(l.Set) })
	return ctx
}

// tierOf names the tier that a service's addresses came from, with the label values of answers_total.
func tierOf(s *index.Set) string {
	if s == nil || len(s.Addrs) == 0 && s.Source != index.SourceClusterSetIPs {
		return ""
	}
	return s.AnswerTier().String()
}
