package kube

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// URL returns the API server's address. It stays the same as long as the control plane runs.
func (c *ControlPlane) URL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.port.number)
}

// Config returns a client configuration with all rights.
func (c *ControlPlane) Config() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// Kubeconfig returns the path of a kubeconfig file with all rights.
func (c *ControlPlane) Kubeconfig() string {
	return filepath.Join(c.dir, "admin.kubeconfig")
}

// ConfigFor returns a client configuration that authenticates as user, in groups. It has the rights that RBAC grants them; a new user has none.
// The API server adds the group system:authenticated.
func (c *ControlPlane) ConfigFor(user string, groups ...string) *rest.Config {
	cert, key, err := c.authority.client(user, groups...)
	if err != nil {
		panic(err) // neither the random source nor signing fails
	}
	return &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.authority.pem,
			CertData: cert,
			KeyData:  key,
		},
		// client-go's default limits a test to 5 requests a second.
		QPS: -1,
	}
}

// KubeconfigFor writes the configuration of [ControlPlane.ConfigFor] to a kubeconfig file, for programs that take a file, and returns its path.
// The file is removed with the control plane's folder.
func (c *ControlPlane) KubeconfigFor(user string, groups ...string) (string, error) {
	name := url.PathEscape(strings.Join(append([]string{user}, groups...), " "))
	path := filepath.Join(c.dir, "user-"+name+".kubeconfig")
	return path, c.writeKubeconfig(path, c.ConfigFor(user, groups...))
}

func (c *ControlPlane) writeKubeconfig(path string, cfg *rest.Config) error {
	const name = "default"
	kubeconfig := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
