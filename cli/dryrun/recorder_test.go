package dryrun

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What changes in an object is listed, of a Secret only that something does, and nothing is written.
func TestChangesAreListed(t *testing.T) {
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	there := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: at("web"), Data: map[string]string{"a": "1"}}, &corev1.Secret{ObjectMeta: at("web")},
		&corev1.Service{ObjectMeta: at("a")}).Build()
	c, says := New(there, "On the hub")
	if got := says(); got != "On the hub nothing would change.\n" {
		t.Error(got)
	}
	config, secret := &corev1.ConfigMap{ObjectMeta: at("web")}, &corev1.Secret{ObjectMeta: at("web"), Data: map[string][]byte{"token": []byte("secret")}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Fatal(err)
	}
	same := config.DeepCopy()
	config.Data["a"] = "2"
	for _, err := range []error{
		c.Update(t.Context(), same), c.Update(t.Context(), config), c.Update(t.Context(), secret),
		c.Delete(t.Context(), secret), c.Create(t.Context(), &corev1.Secret{ObjectMeta: at("web")}),
		c.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace("shop")),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := `On the hub this would:
  update ConfigMap shop/web: {"data":{"a":"2"}}
  update Secret shop/web
  delete Secret shop/web
  create Secret shop/web
  delete Service shop/a
`
	if got := says(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
