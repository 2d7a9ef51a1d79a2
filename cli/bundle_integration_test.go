package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// untar returns the files of an archive, without the folder that they are in.
func untar(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(gz); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "clusterset-bundle/")] = string(content)
	}
}

// A bundle has what is asked for, and no secret, although there are some in Secrets, in a ConfigMap, in variables, in Events and in annotations.
func TestBundleHasNoSecrets(t *testing.T) {
	planes := kube.StartAll(t, nil, nil)
	if code, _, stderr := cli(t, "join", "--hub-kubeconfig", planes[0].Kubeconfig(), "--kubeconfig", planes[1].Kubeconfig(), "beijing", "--install-crds"); code != 0 {
		t.Fatal(stderr)
	}
	here, err := connect.NewClient(planes[1].Config())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := here.Get(t.Context(), types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}, secret); err != nil {
		t.Fatal(err)
	}
	token := tokenOf(t, string(secret.Data[api.HubSecretKey]))
	const planted = "planted-and-secret"
	planes[1].Apply(t, manifest(t, "bundled", "PLANTED", planted, "TOKEN", token))
	file := filepath.Join(t.TempDir(), "set.tar.gz")
	kubeconfig := contexts(t, map[string]string{"b": planes[1].Kubeconfig()})
	args := []string{"bundle", "--kubeconfig", kubeconfig, "--context", "b", "--hub-kubeconfig", planes[0].Kubeconfig(), "--file", file}
	if code, stdout, stderr := cli(t, args...); code != 0 || !strings.Contains(stdout, "is written") {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	files := untar(t, file)
	for name, want := range map[string]string{
		"hub/membercluster.yaml":                            "name: beijing",
		"version.txt":                                       "clusterset ",
		"hub/status.txt":                                    "beijing",
		"member-b/serviceexport.yaml":                       "name: web",
		"member-b/event.yaml":                               "the hub refuses it",
		"member-b/status.txt":                               "Unseen",
		"member-b/services.txt":                             "web",
		"member-b/doctor.txt":                               "PROBLEM",
		"member-b/pods/clusterset-system/agent/status.yaml": "phase: Pending",
		"left-out.txt":                                      "agent metrics: ",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
	config := planes[1].Config()
	for name, content := range files {
		if strings.Contains(name, "stranger") {
			t.Errorf("it has %s", name)
		}
		for what, secret := range map[string]string{
			"the agent's token": token, "a planted secret": planted, "the token's signature": token[strings.LastIndexByte(token, '.')+1:],
			"the administrator's key": string(config.KeyData), "and encoded": base64.StdEncoding.EncodeToString(config.KeyData),
			"another's Event": "of no interest", "the Secret's content": base64.StdEncoding.EncodeToString(secret.Data[api.HubSecretKey]),
		} {
			if secret != "" && strings.Contains(content, secret) {
				t.Errorf("%s has %s", name, what)
			}
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if code, _, stderr := cli(t, args...); code != exitFailure || !strings.Contains(stderr, "exists") {
		t.Errorf("over an older one: exit code %d, %s", code, stderr)
	}
}
