package exporter_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/test/kube"
)

// While some ServiceExports were deleted and the request that asks about their kind hangs in a webhook, another service's change is exported.
func TestAChangeDoesNotWaitForTheBrake(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	w.replaceFor = time.Second
	w.member.Apply(t, manifest(webService, "web"), manifest(webExport, "web", "v1beta1"))
	const others = 10
	for i := range others {
		w.member.Apply(t, manifest(webService, fmt.Sprintf("s%d", i)), manifest(webExport, fmt.Sprintf("s%d", i), "v1beta1"))
	}
	w.run()
	w.awaitRecords("web", 2)
	for i := range others {
		w.awaitRecords(fmt.Sprintf("s%d", i), 2)
	}

	var asked, ended atomic.Int32
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the connection only after that
		<-r.Context().Done()
		ended.Add(1)
	}))
	defer webhook.Close()
	url, policy, none, patience := webhook.URL, admissionv1.Ignore, admissionv1.SideEffectClassNone, int32(15)
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hangs"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hangs.example.com",
			ClientConfig: admissionv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"multicluster.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"serviceexports"}},
			}},
			FailurePolicy: &policy, SideEffects: &none, TimeoutSeconds: &patience, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if err := w.here.Create(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	tries := 0
	kube.Eventually(t, func() error { // until the API server calls it, which it does only for a new object
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tries++
		if err := w.member.ApplyContext(ctx, manifest(webExport, fmt.Sprintf("none%d", tries), "v1beta1")); asked.Load() == 0 {
			return fmt.Errorf("the webhook isn't called: %w", err)
		}
		return nil
	})
	before := asked.Load()
	for i := range others {
		w.member.Delete(t, manifest(webExport, fmt.Sprintf("s%d", i), "v1beta1"))
	}
	kube.Eventually(t, func() error {
		if asked.Load() == before {
			return fmt.Errorf("the exporter hasn't asked")
		}
		return nil
	})
	began, hung := time.Now(), ended.Load()
	w.member.Apply(t, bytes.Replace(manifest(webService, "web"), []byte("- addresses: [10.1.0.2]"), []byte("- addresses: [10.1.0.3]\n- addresses: [10.1.0.2]"), 1))
	w.awaitRecords("web", 3)
	took := time.Since(began)
	t.Logf("a change took %s", took)
	if took > 5*time.Second && ended.Load() > hung { // a slow machine alone isn't enough
		t.Errorf("a change waited for the request that hung, for %s", took)
	}
	for i := range others {
		w.awaitRecords(fmt.Sprintf("s%d", i), -1)
	}
	if n := asked.Load() - before; n > 2 {
		t.Errorf("the exporter asked %d times for %d ServiceExports", n, others)
	}
}
