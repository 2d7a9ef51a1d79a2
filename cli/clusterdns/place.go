// Package clusterdns finds the DNS servers that pods ask, says what they do with a zone, and changes that.
//
// It is behind `clusterset dns` and the doctor's checks of the same. Find, Write and AskPods are its edges; the rest is a function of what
// Find returns.
package clusterdns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
)

// kind is a way in which a distribution configures its DNS.
type kind struct {
	runs                string // the ConfigMap that the servers run with
	version, is, edited string // the object that people change
	parent, field       string // the text in it that is changed
	// edit returns the text with our block or, if add is false, as it was before.
	edit func(p *Place, zones []string, address string, add bool) (string, error)
}

const (
	cacheKey     = "kube-system/node-local-dns"
	openShiftKey = "openshift-dns/dns-default"
)

var (
	coreDNS = kind{"kube-system/coredns", "v1", "ConfigMap", "kube-system/coredns", "data", "Corefile", editCorefile}
	// custom takes the place of coreDNS if its Corefile imports what others write, as on AKS and k3s.
	custom    = kind{"kube-system/coredns", "v1", "ConfigMap", "kube-system/coredns-custom", "data", "clusterset.server", editCorefile}
	rke2      = kind{"kube-system/rke2-coredns-rke2-coredns", "helm.cattle.io/v1", "HelmChartConfig", "kube-system/rke2-coredns", "spec", "valuesContent", editValues}
	openShift = kind{openShiftKey, "operator.openshift.io/v1", "DNS", "/default", "spec", "servers", editServers}
	kubeDNS   = kind{"kube-system/kube-dns", "v1", "ConfigMap", "kube-system/kube-dns", "data", "stubDomains", editStubDomains}
	nodeLocal = kind{cacheKey, "v1", "ConfigMap", cacheKey, "data", "Corefile", editCorefile}
)

// Place is the configuration of DNS servers that pods ask.
type Place struct {
	// Key is the namespace and name of the ConfigMap that they run with. Err is why it can't be read.
	Key string
	Err error
	// Corefile is what they run with, empty if there are none, and Custom what it imports, by name.
	Corefile string
	Custom   map[string]string
	// Edited names the object that people change, empty if nothing has to be changed, and Text is what they change in it.
	Edited, Text string
	// Fixed is why it can't be changed, and what to do instead.
	Fixed string

	kind   kind
	object *unstructured.Unstructured // which is edited, nil if it isn't there yet
}

// Find returns the place of the cluster's DNS, and that of NodeLocal DNSCache. taken is the ConfigMap of servers of ours that have taken
// the cluster DNS's place, if any: they answer the zones themselves.
func Find(ctx context.Context, c *objects.Cluster, taken string) (dns, cache Place) {
	if taken != "" {
		return read(ctx, c, kind{runs: taken}), read(ctx, c, nodeLocal)
	}
	for _, k := range []kind{coreDNS, rke2, openShift, kubeDNS} {
		switch p := read(ctx, c, k); {
		case p.Edited != "" && k.runs == kubeDNS.runs: // the cache reads the stub domains itself
			return p, Place{Key: cacheKey}
		case p.Edited != "":
			return p, read(ctx, c, nodeLocal)
		case dns.Err == nil:
			dns = p
		}
	}
	if dns.Err == nil {
		dns.Err = errors.New("there is no ConfigMap of CoreDNS or kube-dns. If the DNS is Cloud DNS, as on GKE Autopilot, create " +
			"forwarding zones there, to an internal load balancer in front of the clusterset servers")
	}
	return dns, read(ctx, c, nodeLocal)
}

func read(ctx context.Context, c *objects.Cluster, k kind) (p Place) {
	p.Key = k.runs
	var runs *unstructured.Unstructured
	if runs, p.Err = get(ctx, c, "v1", "ConfigMap", k.runs); runs == nil {
		return p
	}
	p.Corefile, _, _ = unstructured.NestedString(runs.Object, "data", "Corefile")
	if k.edit == nil || p.Corefile == "" && k.runs != kubeDNS.runs {
		return p
	}
	if k.runs == custom.runs && strings.Contains(p.Corefile, "*.server") {
		k, p.Custom = custom, map[string]string{}
	}
	p.kind, p.Edited = k, k.is+" "+strings.TrimPrefix(k.edited, "/")
	if p.object, p.Err = get(ctx, c, k.version, k.is, k.edited); p.object == nil {
		return p
	}
	parent, _, _ := unstructured.NestedMap(p.object.Object, k.parent)
	switch value := parent[k.field].(type) {
	case string:
		p.Text = value
	case []any:
		content, _ := yaml.Marshal(value) // it was JSON
		p.Text = string(content)
	}
	switch k.edited {
	case kubeDNS.edited:
		p.Text, p.Corefile, p.Err = seeStubDomains(p.Text)
	case custom.edited:
		for name, text := range parent {
			if strings.HasSuffix(name, ".server") {
				p.Custom[name], _ = text.(string)
			}
		}
	}
	// The label is also on the manifest of NodeLocal DNSCache, which people apply themselves.
	byEKS := func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "eks" }
	if slices.ContainsFunc(p.object.GetManagedFields(), byEKS) {
		p.Fixed = "EKS writes back the Corefile of its add-on; give it the changed one as the value corefile of " +
			"aws eks update-addon --addon-name coredns --configuration-values"
	} else if l := p.object.GetLabels(); l["app.kubernetes.io/managed-by"] == "Helm" || k.runs != cacheKey && l["addonmanager.kubernetes.io/mode"] == "Reconcile" {
		p.Fixed = "Helm or the provider writes " + p.Edited + " back; change it in the chart's values, such as nodelocal.extraClusterDomains of RKE2's, " +
			"or where the provider lets you"
	}
	return p
}

// get returns nil for an object that isn't there, and an error for one that can't be read.
func get(ctx context.Context, c *objects.Cluster, version, is, key string) (*unstructured.Unstructured, error) {
	o := object(version, is, key)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return nil, c.Words(client.IgnoreNotFound(err))
	}
	return o, nil
}

func object(version, is, key string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(is)
	namespace, name, _ := strings.Cut(key, "/")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// Way says what the servers do with a zone. If a file doesn't parse, that is the error.
func (p *Place) Way(zone string) (Way, error) {
	blocks, err := p.blocks(false)
	return wayOf(blocks, zone), err
}

// Unseen reports whether the servers import what isn't known.
func (p *Place) Unseen() bool {
	return p.Custom == nil && slices.Contains(strings.Fields(p.Corefile), "import")
}

// blocks parses all files, perhaps without our block.
func (p *Place) blocks(others bool) (all []block, err error) {
	files := map[string]string{p.Key: p.Corefile}
	for name, text := range p.Custom {
		files[name+" of "+p.Edited] = text
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		before, block, after, err := cut(text)
		if others { // whose lines keep their numbers
			text = before + strings.Repeat("\n", strings.Count(block, "\n")) + after
		}
		blocks, err2 := parse(name, text)
		if err := cmp.Or(err, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, blocks...)
	}
	return all, nil
}

// With returns the text that sends zones to the server at an address. It is the same if they are sent there, or to another server that is
// right. What is in the way is an error.
func (p *Place) With(zones []string, address string, right func(server string) bool) (string, error) {
	without, err := p.Without(zones, address)
	if err != nil || p.Edited == "" {
		return p.Text, err
	}
	others, err := p.blocks(true)
	if err != nil {
		return "", err
	}
	if p.kind.parent == "spec" && without != p.Text { // then a controller has written our block into the Corefile, without its marks
		others = nil
	}
	var missing []string
	for _, zone := range zones {
		switch way := wayOf(others, zone); {
		case way.Plugin == "clusterset":
		case way.of != zone && (way.of != "" || way.Plugin == ""): // a narrower stanza goes before that of a wider zone
			missing = append(missing, zone)
		case len(way.Servers) == 0 || slices.ContainsFunc(way.Servers, func(s string) bool { return !right(s) }):
			return "", fmt.Errorf("%s is in the way of %s: %s", way.Where, zone, strings.TrimSpace(way.Plugin+" "+strings.Join(way.Servers, " ")))
		}
	}
	if len(missing) == 0 {
		return p.Text, nil
	}
	return p.kind.edit(p, missing, address, true)
}

// Without returns the text as it was before it sent zones to an address.
func (p *Place) Without(zones []string, address string) (string, error) {
	if p.Edited == "" {
		return "", nil
	}
	return p.kind.edit(p, zones, address, false)
}

// Write replaces the text. An object that it created is deleted with the text, if it has nothing else.
func (p *Place) Write(ctx context.Context, c client.Client, text string) error {
	o, owner := p.object, client.FieldOwner(api.FieldManagerCLI)
	if o == nil {
		o = object(p.kind.version, p.kind.is, p.kind.edited)
	}
	var value any = text
	if p.kind.edited == openShift.edited { // a list
		_ = yaml.Unmarshal([]byte(text), &value) // which was marshalled
	}
	if err := unstructured.SetNestedField(o.Object, value, p.kind.parent, p.kind.field); err != nil {
		return err
	}
	if p.object == nil {
		return c.Create(ctx, o, owner)
	}
	if text == "" {
		unstructured.RemoveNestedField(o.Object, p.kind.parent, p.kind.field)
		rest, _, _ := unstructured.NestedMap(o.Object, p.kind.parent)
		others := func(m metav1.ManagedFieldsEntry) bool { return m.Manager != api.FieldManagerCLI }
		if len(rest) == 0 && p.kind.edited != p.kind.runs && !slices.ContainsFunc(o.GetManagedFields(), others) {
			return c.Delete(ctx, o)
		}
	}
	return c.Update(ctx, o, owner)
}
