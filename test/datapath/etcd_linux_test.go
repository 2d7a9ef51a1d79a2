package datapath

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// The manifests of docs/recipes/etcd.md make one etcd of three clusters, whose members find each other by their pods' names, with TLS. It
// survives a pod that is replaced, a member that lost its data, and a cluster that is lost and returns.
func TestEtcd(t *testing.T) {
	w := set(t)
	w.hurryHub(t)
	programs, err := kube.Build(t.Context(), kube.IncludeProxy())
	if err != nil {
		t.Fatal(err)
	}
	e := newEtcd(w.recipe(t, "etcd.md", programs.Etcd))
	for _, c := range w.clusters {
		e.install(c)
	}
	xicheng, chaoyang, minhang := w.cluster("xicheng"), w.cluster("chaoyang"), w.cluster("minhang")
	began := time.Now()
	for _, c := range w.clusters {
		e.run(c) // not ready yet
	}
	for _, c := range w.clusters {
		e.ready(c)
	}
	t.Logf("three members were ready %s after their pods existed", time.Since(began).Round(time.Millisecond))
	e.put(xicheng, "first", "1")
	e.holds(minhang, "first", "1")
	e.wholeService(chaoyang, 3)

	e.delete(chaoyang)
	e.put(xicheng, "while a pod is away", "2")
	e.run(chaoyang)
	e.ready(chaoyang)
	e.holds(chaoyang, "while a pod is away", "2")

	// The page's steps for a member that lost its data.
	e.apply(chaoyang, strings.Replace(e.manifest(chaoyang, "ConfigMap"), "state: new", "state: existing", 1))
	e.delete(chaoyang)
	e.emptyVolume(chaoyang, "data")
	e.call(xicheng, "/v3/cluster/member/remove", map[string]any{"ID": e.member(xicheng, "chaoyang")})
	e.call(xicheng, "/v3/cluster/member/add", map[string]any{"peerURLs": []string{"https://" + e.host(chaoyang) + ":2380"}})
	e.run(chaoyang)
	e.ready(chaoyang)
	e.holds(chaoyang, "first", "1")

	minhang.die(t)
	began = time.Now()
	e.put(xicheng, "without a cluster", "3")
	t.Logf("the first write after the loss of a cluster took %s", time.Since(began).Round(time.Millisecond))
	e.wholeService(chaoyang, 2) // the lost cluster is Expired
	e.put(chaoyang, "without its names", "4")
	e.find(minhang)
	e.wholeService(chaoyang, 3)
	e.holds(minhang, "without its names", "4")
	e.put(minhang, "last", "5")
	e.holds(xicheng, "last", "5")
}

// etcd is the recipe's members, with a client in each cluster that resolves names there.
type etcd struct {
	*recipe
	tls *tls.Config
}

func newEtcd(r *recipe) *etcd {
	r.Helper()
	version, err := exec.CommandContext(r.Context(), r.program[0], "--version").Output()
	if err != nil {
		r.Fatal(err)
	}
	image := regexp.MustCompile(`registry\.k8s\.io/etcd:v(\S+)`).FindStringSubmatch(r.manifest(r.w.clusters[0], "StatefulSet"))
	if len(image) != 2 || !strings.Contains(string(version), "etcd Version: "+image[1]+"\n") {
		r.Errorf("the page's image is %q, and this is %s", image, version)
	}
	ca, cert, key, err := r.authority.CertificateFor("client")
	if err != nil {
		r.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		r.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &etcd{r, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
}

// host returns the name of a cluster's member.
func (e *etcd) host(c *cluster) string {
	return "etcd-0." + c.Name + ".etcd.shop.svc.clusterset.local"
}

// try calls etcd's JSON API at a cluster's own member, by its name.
func (e *etcd) try(c *cluster, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: e.dialer(c), TLSClientConfig: e.tls, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(e.Context(), http.MethodPost, "https://"+e.host(c)+":2379"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, got)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(got, answer)
}

func (e *etcd) call(c *cluster, path string, request any) {
	e.Helper()
	kube.Eventually(e, func() error { return e.try(c, path, request, nil) })
}

// put writes a key at a cluster's member. That takes a quorum.
func (e *etcd) put(c *cluster, key, value string) {
	e.Helper()
	e.call(c, "/v3/kv/put", map[string]any{"key": []byte(key), "value": []byte(value)})
}

// holds waits until a cluster's member itself has a key: it doesn't ask the others.
func (e *etcd) holds(c *cluster, key, value string) {
	e.Helper()
	kube.Eventually(e, func() error {
		var got struct{ Kvs []struct{ Value []byte } }
		if err := e.try(c, "/v3/kv/range", map[string]any{"key": []byte(key), "serializable": true}, &got); err != nil {
			return err
		}
		if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
			return fmt.Errorf("%s has %q of %s, want %s", c.Name, got.Kvs, key, value)
		}
		return nil
	})
}

// member returns the ID of the member with that name, as a cluster's member knows it.
func (e *etcd) member(c *cluster, name string) (id string) {
	e.Helper()
	kube.Eventually(e, func() error {
		var got struct{ Members []struct{ ID, Name string } }
		if err := e.try(c, "/v3/cluster/member/list", map[string]any{}, &got); err != nil {
			return err
		}
		for _, m := range got.Members {
			if m.Name == name {
				id = m.ID
				return nil
			}
		}
		return fmt.Errorf("%s knows no member %s: %v", c.Name, name, got.Members)
	})
	return id
}

// wholeService waits until the Service's own name has that many members in a cluster.
func (e *etcd) wholeService(c *cluster, members int) {
	e.Helper()
	kube.Eventually(e, func() error {
		addrs, err := e.resolver(c).LookupHost(e.Context(), "etcd.shop.svc.clusterset.local")
		if err == nil && len(addrs) != members {
			err = fmt.Errorf("%s finds etcd at %v, want %d members", c.Name, addrs, members)
		}
		return err
	})
}
