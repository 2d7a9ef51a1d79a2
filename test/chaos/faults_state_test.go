package chaos

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleettest"
)

var errNotYet = errors.New("not yet")

// stateFaults affect stored objects, clocks and names.
var stateFaults = []fault{
	{group: "credentials", name: "revoked: the member's account is deleted on the hub; joined again later", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.Hub.Remove(fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: %s, name: %s}}", api.MemberNamespace(c.victim.Spec.Name), api.MemberServiceAccount))
		c.fallsSilent()
		c.rejoinVictim()
	}},
	{group: "credentials", name: "expired; joined again later", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.victim.KillAgent()
		c.must(expireToken(c.victim, c.Hub))
		c.victim.StartAgent()
		c.fallsSilent()
		c.rejoinVictim()
	}},

	{group: "full disk", name: "the hub's etcd is full (NOSPACE) for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		c.fill(&c.Hub.Cluster)
		c.churn(5)
		c.watch(expireAfter + 2*time.Second)
		c.empty(&c.Hub.Cluster)
	}},
	{group: "full disk", name: "the member's etcd is full (NOSPACE)", promise: noChange, does: func(c *run) {
		c.fill(&c.victim.Cluster)
		c.churn(5)
		c.watch(c.between(4*time.Second, 15*time.Second))
		c.empty(&c.victim.Cluster)
	}},

	{group: "clock", name: "the member's steps by an hour, forth and back, as the hub sees it", promise: noChange, silent: true, does: func(c *run) {
		w := places[0].wire(c)
		proxy, err := w.intercept()
		c.must(err)
		var step atomic.Int64
		var seen atomic.Int32
		proxy.Edit(func(r *http.Request) { shiftRenewTime(r, time.Duration(step.Load()), &seen) })
		for _, by := range []time.Duration{time.Hour, -time.Hour, 0, -time.Hour, time.Hour} {
			step.Store(int64(by))
			was := seen.Load()
			c.until(func() error {
				if seen.Load() < was+3 {
					return errNotYet
				}
				return nil
			})
		}
		c.touched("%d heartbeats had another time", seen.Load())
		w.direct()
	}},

	{group: "CRD", name: "upgraded on the hub: a new field in every kind", promise: noChange, does: func(c *run) { c.upgradeCRDs(&c.Hub.Cluster) }},
	{group: "CRD", name: "upgraded in the member: a new field in every kind", promise: noChange, does: func(c *run) { c.upgradeCRDs(&c.victim.Cluster) }},
	{group: "CRD", name: "ExportedService deleted on the hub, with all objects, and installed again", promise: noChange, does: func(c *run) {
		c.deleteHubCRD("exportedservices")
	}},
	{group: "CRD", name: "ExportedEndpoints deleted on the hub, with all objects, and installed again", promise: noChange, does: func(c *run) {
		c.deleteHubCRD("exportedendpoints")
	}},
	{group: "CRD", name: "MemberCluster deleted on the hub, with all objects; installed and all joined again", promise: noChange, does: func(c *run) {
		c.deleteHubCRD("memberclusters")
		c.Rejoin()
	}},

	{group: "name", name: "a second cluster works with a member's name and credentials", promise: noChange + "; it exports nothing and says so (clusterset_exporter_name_taken)", does: func(c *run) {
		twin := c.victim.Copied()
		defer twin.Stop()
		twin.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}", "{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: twins}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}",
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: shop, name: twins}}")
		twin.StartAgent()
		defer twin.KillAgent()
		c.until(func() error {
			return errors.Join(twin.NameTaken(1), twin.ExportIs("shop", "twins", "Ready", "False", api.ReasonNameTaken))
		})
		c.touched("the second agent said that its name is taken")
		c.churn(5)
		c.watch(c.between(4*time.Second, 10*time.Second))
		c.must(c.Fleet.Recorded(c.victim.Spec.Name, "shop", "twins", false))
	}},
}

// rejoinVictim gives the member new credentials. Its agent reads them from the file without a restart.
func (c *run) rejoinVictim() {
	c.Helper()
	c.must(c.victim.Join(context.Background(), c.Hub, "--rejoin"))
	c.until(func() error { return c.Hub.PhaseIs(c.victim.Spec.Name, ready) })
}

// shiftRenewTime changes the time in a heartbeat, as a cluster with a wrong clock would. The hub sees no other time of a
// member's clock.
func shiftRenewTime(r *http.Request, by time.Duration, seen *atomic.Int32) {
	if r.Body == nil || !strings.Contains(r.URL.Path, "/leases/") {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), r.Header.Get("Content-Type"))
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if lease, ok := object.(*coordinationv1.Lease); known && err == nil && ok && lease.Spec.RenewTime != nil {
		lease.Spec.RenewTime.Time = lease.Spec.RenewTime.Add(by)
		var shifted bytes.Buffer
		if info.Serializer.Encode(lease, &shifted) == nil {
			body = shifted.Bytes()
			seen.Add(1)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// crdsOf returns this project's CRDs in a cluster whose names begin like that.
func (c *run) crdsOf(of *fleettest.Cluster, begin string) []apiextensionsv1.CustomResourceDefinition {
	c.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	c.must(of.List(&list))
	ours := slices.DeleteFunc(list.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return !strings.HasPrefix(crd.Name, begin) || !strings.HasSuffix(crd.Name, ".clusterset.dev") && !strings.HasSuffix(crd.Name, ".dns.fabedge.io")
	})
	if len(ours) == 0 {
		c.Fatalf("%s has no CRD %s of ours", of.Dir, begin)
	}
	return ours
}

// changeCRD changes the properties in each version of a CRD.
func (c *run) changeCRD(of *fleettest.Cluster, crd *apiextensionsv1.CustomResourceDefinition, change func(map[string]apiextensionsv1.JSONSchemaProps)) {
	c.Helper()
	before := crd.DeepCopy()
	for _, v := range crd.Spec.Versions {
		change(v.Schema.OpenAPIV3Schema.Properties)
	}
	c.must(of.Client.Patch(context.Background(), crd, client.MergeFrom(before)))
}

// upgradeCRDs adds an optional field to each CRD, as the next version may. When a kind changes, the API server ends all its
// watches. Then upgradeCRDs removes the fields, as a downgrade does.
func (c *run) upgradeCRDs(of *fleettest.Cluster) {
	c.Helper()
	for _, crd := range c.crdsOf(of, "") {
		before := crd.GetGeneration()
		c.changeCRD(of, &crd, func(properties map[string]apiextensionsv1.JSONSchemaProps) {
			if spec, has := properties["spec"]; has { // a Reachability has none
				properties = spec.Properties
			}
			properties["ofTheNextVersion"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		})
		if crd.GetGeneration() > before {
			c.touched("the watches of %s ended", crd.GetName())
		}
	}
	c.churn(8)
	c.watch(c.between(2*time.Second, 6*time.Second))
	c.must(c.installCRDs(of))
}

func (c *run) installCRDs(of *fleettest.Cluster) error {
	if of.Dir == c.Hub.Dir {
		return join.InstallHubCRDs(context.Background(), join.At(of.Plane.Config()))
	}
	return join.InstallMemberCRDs(context.Background(), join.At(of.Plane.Config()))
}

// deleteHubCRD deletes one of this project's CRDs on the hub, and every object of its kind with it. Then it installs the
// CRD again.
func (c *run) deleteHubCRD(resource string) {
	c.Helper()
	crd := &c.crdsOf(&c.Hub.Cluster, resource+".")[0]
	c.must(c.Hub.Client.Delete(context.Background(), crd))
	c.until(func() error {
		err := c.Hub.Get("", crd.GetName(), crd.DeepCopy())
		if err == nil {
			return fmt.Errorf("CRD %s is still there", crd.GetName())
		}
		if errors.As(err, new(apierrors.APIStatus)) && apierrors.IsNotFound(errors.Unwrap(err)) {
			return nil
		}
		return err
	})
	c.touched("the API server serves no %s", resource)
	c.churn(5)
	c.watch(c.between(4*time.Second, 10*time.Second))
	c.must(c.installCRDs(&c.Hub.Cluster))
}

// expireToken writes a token that expired two minutes ago into the agent's kubeconfig for the hub. It signs the token with
// the hub's key, because the hub issues no expired tokens.
func expireToken(m *fleettest.Member, h *fleettest.Hub) error {
	content, err := os.ReadFile(filepath.Join(h.Dir, "pki", "service-account.key"))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(content)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	var account corev1.ServiceAccount
	namespace := api.MemberNamespace(m.Spec.Name)
	if err := h.Get(namespace, api.MemberServiceAccount, &account); err != nil {
		return err
	}
	const issuer = "https://kubernetes.default.svc"
	now := time.Now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuer, "aud": []string{issuer},
		"sub": fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account.Name),
		"iat": now.Add(-time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix(), "exp": now.Add(-2 * time.Minute).Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
	}).SignedString(key)
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(m.Base.HubKubeconfig)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Token = token
	}
	return clientcmd.WriteToFile(*config, m.Base.HubKubeconfig)
}

// quotaBytes is the size limit in bytes of each etcd of a chaos fleet. It is more than the fleet needs, and quickly filled.
const quotaBytes = 40 << 20

// ballast is the data that fills an etcd.
var ballast = client.MatchingLabels{"clusterset-test/ballast": "true"}

// fill writes to a cluster until its etcd is full, which raises etcd's NOSPACE alarm: every write is refused until someone
// makes room and disarms the alarm.
func (c *run) fill(of *fleettest.Cluster) {
	c.Helper()
	for i := 0; ; i++ {
		err := of.Client.Create(context.Background(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "ballast-", Labels: ballast},
			Data:       map[string]string{"content": strings.Repeat("ballast ", 120<<10)},
		})
		switch {
		case err != nil && strings.Contains(err.Error(), "database space exceeded"):
			c.touched("etcd refused a user's write")
			return
		case err != nil:
			c.Fatalf("fill the etcd of %s: %v", of.Dir, err)
		case i > 2*quotaBytes>>20:
			c.Fatalf("the etcd of %s takes %d MB, in spite of its quota", of.Dir, i)
		}
	}
}

// empty follows etcd's maintenance guide: delete, compact, defragment, disarm.
func (c *run) empty(of *fleettest.Cluster) {
	c.Helper()
	ctx := context.Background()
	c.must(of.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), ballast))
	call := func(path string, request any) (answer struct {
		Header struct{ Revision, MemberID string }
		Alarms []struct{ MemberID, Alarm string }
	},
	) {
		c.Helper()
		content, err := of.Plane.CallEtcd(ctx, path, request)
		c.must(err)
		content = []byte(strings.NewReplacer(`"member_id"`, `"memberID"`).Replace(string(content)))
		if err := json.Unmarshal(content, &answer); err != nil {
			c.Fatalf("etcd %s: %v\n%s", path, err, content)
		}
		return answer
	}
	now := call("/v3/kv/range", map[string]any{"key": "AA=="})
	call("/v3/kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true})
	call("/v3/maintenance/defragment", struct{}{})
	alarms := call("/v3/maintenance/alarm", map[string]any{"action": "GET"}).Alarms
	if len(alarms) == 0 {
		c.Error("etcd was full and raised no alarm")
	}
	for _, a := range alarms {
		call("/v3/maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": a.MemberID, "alarm": a.Alarm})
	}
	c.until(func() error {
		if left := call("/v3/maintenance/alarm", map[string]any{"action": "GET"}).Alarms; len(left) > 0 {
			return fmt.Errorf("alarms: %v", left)
		}
		return nil
	})
}
