package index

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// Rule A60 of docs/spec/answers.md: one invalid value in what people write takes with it only what it says itself, and is reported with its
// place. What an object or an endpoint is (its name, its service, its type, its cluster) can't be guessed: if that is invalid, it is left out.
func TestOneInvalidValueTakesNothingElseWithIt(t *testing.T) {
	const (
		member = `{"metadata": {"name": "lyon"}, "spec": {"zone": "z", "zones": ["y", "x"], "region": "r", "drain": true, "weight": 7, "cidrs": ["10.1.0.0/16"], "communities": ["a"]}, "status": {"phase": "Suspect"}}`
		global = `{"metadata": {"namespace": "shop", "name": "web", "annotations": {"clusterset.dev/prefer": "zone", "clusterset.dev/boundary": "region", "clusterset.dev/min-ready": "2"}}, "spec": {"type": "Headless",
			"ports": [{"name": "http", "port": 80, "appProtocol": "h2c"}, {"name": "dns", "protocol": "UDP", "port": 53}],
			"endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"], "hostname": "db-0", "cluster": "lyon", "zone": "z", "region": "r", "ready": true, "targetRef": {"name": "a"}, "ports": [{"name": "http", "port": 8080}, {"name": "dns", "protocol": "UDP", "port": 53}]},
				{"addresses": ["10.0.0.3"], "cluster": "paris"}]}}`
		imported = `{"metadata": {"namespace": "shop", "name": "web", "annotations": {"clusterset.dev/prefer": "zone", "clusterset.dev/boundary": "region", "clusterset.dev/min-ready": "2"}}, "spec": {"type": "ClusterSetIP", "ips": ["10.0.0.1", "fd00::1"],
			"ports": [{"name": "http", "port": 80}, {"name": "dns", "protocol": "UDP", "port": 53}], "trafficDistribution": "PreferClose", "sessionAffinity": "None"}}`
		slice = `{"metadata": {"namespace": "shop", "name": "web-1", "labels": {"multicluster.kubernetes.io/service-name": "web", "multicluster.kubernetes.io/source-cluster": "lyon"}}, "addressType": "IPv4",
			"ports": [{"name": "http", "port": 80}, {"name": "dns", "protocol": "UDP", "port": 53}],
			"endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"], "hostname": "db-0", "zone": "z", "conditions": {"ready": true}, "nodeName": "n", "hints": {}, "deprecatedTopology": {}, "targetRef": {}}, {"addresses": ["10.0.0.3"]}]}`
	)
	type change struct{ field, from, spoilt, to, said string }
	for _, kind := range []struct {
		whole   string
		new     func() runtime.Object
		types   []reflect.Type
		unread  string // fields of these types that DNS doesn't read
		changes []change
	}{
		{
			member, func() runtime.Object { return &clustersetv1alpha1.MemberCluster{} },
			[]reflect.Type{reflect.TypeFor[clustersetv1alpha1.MemberClusterSpec]()},
			"cidrs communities network externalCIDRs",
			[]change{
				{"name", `"lyon"`, `"ly_on"`, "", "metadata.name"},
				{"zone", `"zone": "z"`, `"zone": " z"`, `"zone": ""`, "spec.zone"},
				{"zones", `["y", "x"]`, `["y", "a\tb", "x"]`, `["y", "x"]`, "spec.zones[1]"},
				{"region", `"region": "r"`, `"region": "r "`, `"region": ""`, "spec.region"},
				{"weight", `"weight": 7`, `"weight": 700`, `"weight": null`, "spec.weight"},
				{"drain", "true", "true", "true", ""}, // true or false
				{"phase", `"Suspect"`, `"suspect"`, `""`, "status.phase"},
			},
		},
		{
			global, func() runtime.Object { return &fabedgev1alpha1.GlobalService{} },
			[]reflect.Type{
				reflect.TypeFor[fabedgev1alpha1.GlobalServiceSpec](), reflect.TypeFor[fabedgev1alpha1.ServicePort](),
				reflect.TypeFor[fabedgev1alpha1.Endpoint](), reflect.TypeFor[fabedgev1alpha1.EndpointPort](),
			},
			"appProtocol targetRef endpoints ready",
			[]change{
				{"name", `"web"`, `"w_b"`, "", "metadata.name"},
				{"prefer", `"clusterset.dev/prefer": "zone"`, `"clusterset.dev/prefer": "near"`, `"a": "b"`, "clusterset.dev/prefer]"},
				{"boundary", `"clusterset.dev/boundary": "region"`, `"clusterset.dev/boundary": "planet"`, `"a": "b"`, "clusterset.dev/boundary]"},
				{"min-ready", `"clusterset.dev/min-ready": "2"`, `"clusterset.dev/min-ready": "-2"`, `"a": "b"`, "clusterset.dev/min-ready]"},
				{"type", `"Headless"`, `"headless"`, "", "spec.type"},
				{"ports", `{"name": "dns", "protocol": "UDP", "port": 53}],
			"end`, `{"name": "d_s", "protocol": "UDP", "port": 53}],
			"end`, `],
			"end`, "spec.ports[1].name"},
				{"protocol", `{"name": "dns", "protocol": "UDP", "port": 53}],
			"end`, `{"name": "dns", "protocol": "udp", "port": 53}],
			"end`, `],
			"end`, "spec.ports[1].protocol"},
				{"port", `{"name": "dns", "protocol": "UDP", "port": 53}],
			"end`, `{"name": "dns", "protocol": "UDP", "port": 99999}],
			"end`, `],
			"end`, "spec.ports[1].port"},
				{"ports", `{"name": "http", "port": 8080}`, `{"name": "http", "port": 0}`, ``, "spec.endpoints[0].ports[0].port"},
				{"addresses", `["10.0.0.1", "10.0.0.2"]`, `["10.0.0.1", "10.0.0.300", "10.0.0.2"]`, `["10.0.0.1", "10.0.0.2"]`, "spec.endpoints[0].addresses[1]"},
				{"hostname", `"db-0"`, `"db_0"`, `null`, "spec.endpoints[0].hostname"},
				{"cluster", `"lyon"`, `"ly_on"`, "", "spec.endpoints[0].cluster"},
				{"zone", `"zone": "z"`, `"zone": "z\n"`, `"zone": ""`, "spec.endpoints[0].zone"},
				{"region", `"region": "r"`, `"region": "r\n"`, `"region": ""`, "spec.endpoints[0].region"},
			},
		},
		{
			imported, func() runtime.Object { return &mcsv1beta1.ServiceImport{} },
			[]reflect.Type{reflect.TypeFor[mcsv1beta1.ServiceImportSpec](), reflect.TypeFor[mcsv1beta1.ServicePort]()},
			"sessionAffinity sessionAffinityConfig ipFamilies internalTrafficPolicy appProtocol",
			[]change{
				{"name", `"web"`, `"w_b"`, "", "metadata.name"},
				{"prefer", `"clusterset.dev/prefer": "zone"`, `"clusterset.dev/prefer": "near"`, `"a": "b"`, "clusterset.dev/prefer]"},
				{"boundary", `"clusterset.dev/boundary": "region"`, `"clusterset.dev/boundary": "planet"`, `"a": "b"`, "clusterset.dev/boundary]"},
				{"min-ready", `"clusterset.dev/min-ready": "2"`, `"clusterset.dev/min-ready": "-2"`, `"a": "b"`, "clusterset.dev/min-ready]"},
				{"type", `"ClusterSetIP"`, `"ClusterIP"`, "", "spec.type"},
				{"ips", `["10.0.0.1", "fd00::1"]`, `["10.0.0.1", "localhost", "fd00::1"]`, `["10.0.0.1", "fd00::1"]`, "spec.ips[1]"},
				{"ports", `{"name": "http", "port": 80}`, `{"name": "h_p", "port": 80}`, ``, "spec.ports[0].name"},
				{"port", `{"name": "http", "port": 80}`, `{"name": "http", "port": 0}`, ``, "spec.ports[0].port"},
				{"protocol", `{"name": "http", "port": 80}`, `{"name": "http", "port": 80, "protocol": "tcp"}`, ``, "spec.ports[0].protocol"},
				{"trafficDistribution", `"PreferClose"`, `"PreferFar"`, `null`, "spec.trafficDistribution"},
			},
		},
		{
			slice, func() runtime.Object { return &discoveryv1.EndpointSlice{} },
			[]reflect.Type{reflect.TypeFor[discoveryv1.Endpoint](), reflect.TypeFor[discoveryv1.EndpointPort]()},
			"conditions targetRef nodeName hints deprecatedTopology appProtocol name",
			[]change{
				{"source-cluster", `"lyon"`, `"Ly_on"`, "", "source-cluster]"},
				{"service-name", `"web"`, `"w_b"`, "", "service-name]"},
				{"ports", `{"name": "http", "port": 80}`, `{"name": "h_p", "port": 80}`, ``, "ports[0].name"},
				{"port", `{"name": "http", "port": 80}`, `{"name": "http", "port": 0}`, ``, "ports[0].port"},
				{"protocol", `{"name": "http", "port": 80}`, `{"name": "http", "port": 80, "protocol": "tcp"}`, ``, "ports[0].protocol"},
				{"addresses", `["10.0.0.1", "10.0.0.2"]`, `["10.0.0.1", "127.0.0.1", "10.0.0.2"]`, `["10.0.0.1", "10.0.0.2"]`, "endpoints[0].addresses[1]"},
				{"hostname", `"db-0"`, `"db_0"`, `null`, "endpoints[0].hostname"},
				{"zone", `"zone": "z"`, `"zone": "z\n"`, `"zone": ""`, "endpoints[0].zone"},
			},
		},
	} {
		tried := " " + kind.unread + " "
		for _, c := range kind.changes {
			tried += c.field + " "
			read := func(with string) (Object, string) {
				content := strings.Replace(kind.whole, c.from, with, 1)
				content = strings.ReplaceAll(strings.ReplaceAll(content, "[,", "["), `"ports": [, `, `"ports": [`)
				content = strings.ReplaceAll(content, "}, ]", "}]")
				o := kind.new()
				if err := json.Unmarshal([]byte(content), o); err != nil {
					t.Fatalf("%s: %v: %s", c.field, err, content)
				}
				converted, errs, _ := Convert(o)
				if len(errs) == 0 {
					return converted, ""
				}
				return converted, errs.ToAggregate().Error()
			}
			if !strings.Contains(kind.whole, c.from) {
				t.Fatalf("%s: nothing to spoil", c.field)
			}
			got, said := read(c.spoilt)
			if !strings.Contains(said, c.said) || (said == "") != (c.said == "") {
				t.Errorf("%s %s: it says %q, want %s", reflect.TypeOf(kind.new()), c.spoilt, said, c.said)
			}
			if c.to == "" && !strings.HasPrefix(c.from, "{") {
				if c.field == "cluster" {
					if whole, _ := read(c.from); len(got.(*GlobalService).Groups) != len(whole.(*GlobalService).Groups)-1 {
						t.Errorf("cluster: %+v", got)
					}
				} else if got != nil {
					t.Errorf("%s %s: it is served: %+v", reflect.TypeOf(kind.new()), c.spoilt, got)
				}
				continue
			}
			if want, said := read(c.to); said != "" || !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s:\n%+v, want\n%+v %s", reflect.TypeOf(kind.new()), c.spoilt, got, want, said)
			}
		}
		for _, of := range kind.types {
			for _, f := range reflect.VisibleFields(of) {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !strings.Contains(tried, " "+name+" ") {
					t.Errorf("%s: say what an invalid %s takes with it", of, name)
				}
			}
		}
	}
}
