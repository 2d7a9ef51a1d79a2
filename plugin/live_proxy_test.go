package clusterset_test

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/kube"
)

// apiProxy is a proxy in front of the API server, with a kubeconfig for CoreDNS.
type apiProxy struct {
	*faultproxy.API
	kubeconfig string
}

// startProxy starts a proxy and writes a kubeconfig for it.
func startProxy(t *testing.T, control *kube.ControlPlane) *apiProxy {
	t.Helper()
	proxy, err := faultproxy.NewAPI(control.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	p := &apiProxy{proxy, filepath.Join(t.TempDir(), "kubeconfig")}
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: proxy.URL()}},
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
