package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/test/page"
)

const previewFrom = "../examples/preview"

// Each command prints its golden file in testdata (UPDATE=1 writes it), and its exit code tells whether names are lost.
func TestPreviewOfManifests(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"down":        {[]string{"down", "beijing"}, exitLost},
		"drain":       {[]string{"drain", "beijing"}, 0},
		"wide":        {[]string{"drain", "beijing", "-o", "wide"}, 0},
		"from":        {[]string{"drain", "beijing", "--from", "-/-/cn-east-1", "--for", "shop/db"}, 0},
		"undrain":     {[]string{"undrain", "beijing"}, 0},
		"leave":       {[]string{"leave", "beijing", "tianjin"}, exitLost},
		"export":      {[]string{"export", "shop/cart", "--from", "tianjin"}, 0},
		"unexport":    {[]string{"unexport", "shop/web", "--from", "beijing"}, 0},
		"place":       {[]string{"place", "tianjin", "--zone", "cn-east-1b", "--region", "cn-east-1"}, 0},
		"share":       {[]string{"share", "shop/web", "50", "--in", "beijing"}, 0},
		"policy":      {[]string{"policy", "shop/web", "--prefer", "region", "--min-ready", "2"}, 0},
		"communities": {[]string{"place", "tianjin", "--community", "payments"}, exitLost},
		"export-to":   {[]string{"policy", "shop/web", "--export-to", "beijing", "--export-to", "tianjin"}, exitLost},
		"network":     {[]string{"place", "tianjin", "--network", "edge", "--external-cidrs", "192.0.2.0/24"}, exitLost},
		"cidrs":       {[]string{"place", "beijing", "--cidrs", "10.9.0.0/16"}, exitLost},
		"cidrs-fit":   {[]string{"place", "beijing", "--cidrs", "10.1.0.0/16,10.96.0.0/16"}, 0},
		"boundary":    {[]string{"policy", "shop/cart", "--boundary", "region"}, exitLost},
	} {
		code, stdout, stderr := cli(t, append([]string{"preview", "--manifests", previewFrom}, c.args...)...)
		if code != c.code || (code == 0) != (stderr == "") {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, stderr)
		}
		page.Fresh(t, filepath.Join("testdata", "preview", name+".txt"), stdout)
	}
}

func TestPreviewOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "changes.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("- drain: [beijing]\n- export: {service: shop/cart, from: tianjin}\n- policy: {service: shop/web, minReady: 3, exportTo: [tianjin]}\n- share: {service: shop/web, in: tianjin, percent: 0}\n- place: {cluster: beijing, communities: [default], network: edge, externalCIDRs: [192.0.2.0/24], cidrs: [10.0.0.0/8]}\n- leave: [shanghai]\n")
	code, stdout, stderr := cli(t, "preview", "--manifests", previewFrom, "--file", path, "-o", "json")
	var r preview.Result
	if err := json.Unmarshal([]byte(stdout), &r); code != exitLost || err != nil || len(r.Services) != 3 || !strings.HasPrefix(r.Summary.Text, "Draining beijing, then exporting shop/cart from tianjin, then giving shop/web the policy min-ready 3, export-to tianjin, then giving shop/web in tianjin the share 0%, then giving beijing communities default") {
		t.Errorf("exit code %d, %v, %s\n%s", code, err, stderr, stdout)
	}
	for text, want := range map[string]string{
		"- drain: [paris]\n": "there is no cluster paris; there are beijing, shanghai, tianjin",
		"# first\n- down: [tianjin]\n- drian: [beijing]\n":      `changes.yaml: want a list of changes, each with one of down, unreachable, drain`,
		"- down: [tianjin]\n- place:\n    cluster: [tianjin]\n": "place.cluster of type string",
		"- down: [tianjin]\n- drain: [beijing\n":                "yaml: line 2: did not find expected",
		"down: [tianjin]\n":                                     "want a list of changes",
	} {
		write(text)
		fails(t, exitUsage, want, "preview", "--manifests", previewFrom, "--file", path)
	}
}

// leave lists the services that lose their last endpoint, and not those of which it says nothing but that a conflict ends.
func TestAQuestionListsWhatIsLost(t *testing.T) {
	lost := preview.Service{Namespace: "shop", Name: "a", Effects: []preview.Effect{preview.Lost, preview.Fewer}}
	ends := preview.Service{Namespace: "shop", Name: "b", Effects: []preview.Effect{}, Conflicts: []preview.Conflict{{Ends: true}}}
	stdin, err := os.Open(previewFrom) // no terminal
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	var stdout strings.Builder
	err = agreed(t.Context(), "beijing", &preview.Result{Services: []preview.Service{lost, ends}}, stdin, &stdout)
	if err == nil || !strings.Contains(err.Error(), "beijing hasn't left") || stdout.String() != "  shop/a\n" {
		t.Errorf("%v, %q", err, stdout.String())
	}
}

// Ctrl-C at the question is a no, though nobody presses Enter.
func TestCtrlCAtTheQuestion(t *testing.T) {
	stdin, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no terminal to ask at: %v", err)
	}
	defer func() { _ = stdin.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := agreed(ctx, "beijing", &preview.Result{}, stdin, io.Discard); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("%v", err)
	}
}

func TestPreviewIsAskedForWrongly(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	with := func(args ...string) []string { return append([]string{"preview", "--manifests", previewFrom}, args...) }
	for want, args := range map[string][]string{
		"no change is given; name one (down":               with(),
		`unknown command "dorwn"`:                          with("dorwn"),
		"CLUSTER is missing":                               with("down"),
		"want one CLUSTER, not 2":                          with("place", "beijing", "tianjin"),
		"place of beijing: spec.cidrs[0]: Invalid value":   with("place", "beijing", "--cidrs", "10.1.0.1/16"),
		"there is no cluster paris":                        with("down", "paris"),
		"want one NAMESPACE/NAME, not 0":                   with("policy"),
		`"web" isn't a service`:                            with("unexport", "web", "--from", "beijing"),
		"--in is required":                                 with("share", "shop/web", "50"),
		"want one NAMESPACE/NAME PERCENT, not 1":           with("share", "shop/web", "--in", "beijing"),
		"share: want a whole number from 0 to 100":         with("share", "shop/web", "25%", "--in", "beijing"),
		"shop/web isn't exported from shanghai":            with("share", "shop/web", "25", "--in", "shanghai"),
		"--from is required":                               with("export", "shop/web"),
		`unknown data path "x"`:                            with("down", "beijing", "--data-path", "x"),
		`unknown tier "x"`:                                 with("down", "beijing", "--default-prefer", "x"),
		"--for: ":                                          with("down", "beijing", "--for", "web"),
		"want table, wide, json, yaml":                     with("down", "beijing", "-o", "xml"),
		"--hub-kubeconfig, --hub-context or --manifests":   {"preview", "down", "beijing"},
		"can't be used together":                           with("down", "beijing", "--hub-context", "hub"),
		"there is no ExportedService and no MemberCluster": {"preview", "down", "beijing", "--manifests", "testdata/preview/down.txt.none"},
	} {
		if strings.HasPrefix(want, "there is no ExportedService") {
			args[len(args)-1] = t.TempDir()
		}
		fails(t, exitUsage, want, args...)
	}
	fails(t, exitFailure, "there is no Service shop/none", with("export", "shop/none", "--from", "beijing")...)
}

// Where there are several networks, the external addresses of a Service that would be exported count, if they are known.
func TestPreviewOfAnExportAcrossNetworks(t *testing.T) {
	records, err := os.ReadFile("console/testdata/networks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for spec, unknown := range map[string]bool{
		"spec: {type: NodePort, clusterIP: 10.96.0.9, ports: [{port: 80, nodePort: 31000}]}":                                                           true,
		"spec: {type: LoadBalancer, clusterIP: 10.96.0.9, ports: [{port: 80}]}\nstatus: {loadBalancer: {ingress: [{hostname: lb.example.com}]}}":       true,
		"spec: {type: LoadBalancer, clusterIP: 10.96.0.9, ports: [{port: 80, nodePort: 31000}]}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.9}]}}": false,
	} {
		file := filepath.Join(t.TempDir(), "all.yaml")
		text := string(records) + `
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: basket}
` + spec + `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: basket-1, labels: {kubernetes.io/service-name: basket}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.0.9]}]
`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := cli(t, "preview", "export", "shop/basket", "--from", "shanghai", "--manifests", file, "-o", "json")
		var r preview.Result
		if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil || len(r.Services) != 1 {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		reached := slices.ContainsFunc(r.Services[0].Cells, func(c preview.Cell) bool {
			inLyon := func(p place.Place) bool { return p.Cluster == "lyon" }
			return c.After.ClusterSetIP != nil && c.After.ClusterSetIP.Ready > 0 && slices.ContainsFunc(c.Places, inLyon)
		})
		if reached == unknown {
			t.Errorf("%s: other networks reach it: %v\n%s", spec, reached, stdout)
		}
	}
}
