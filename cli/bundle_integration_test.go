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

// bundled shows that a bundle has what is asked for, and no secret, although there are some in Secrets, in a ConfigMap, in variables, in Events and in
// annotations.
func (w *credentials) bundled(t *testing.T) {
	token := tokenOf(t, w.installed(t))
	const planted = "planted-and-secret"
	w.member.Apply(t, manifest(t, "bundled", "PLANTED", planted, "TOKEN", token))
	file := filepath.Join(t.TempDir(), "set.tar.gz")
	kubeconfig := contexts(t, map[string]string{"b": w.member.Kubeconfig()})
	args := []string{"bundle", "--kubeconfig", kubeconfig, "--context", "b", "--hub-kubeconfig", w.hub.Kubeconfig(), "--file", file}
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
		"member-b/status.txt":                               "beijing",
		"member-b/services.txt":                             "web",
		"member-b/doctor.txt":                               "PROBLEM",
		"member-b/pods/clusterset-system/agent/status.yaml": "phase: Pending",
		"left-out.txt":                                      "agent/metrics.txt: ",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
	secrets := []string{planted, "of no interest", base64.StdEncoding.EncodeToString([]byte(w.installed(t)))}
	for _, secret := range w.secrets {
		secrets = append(secrets, partsOf(secret)...)
	}
	for name, content := range files {
		if strings.Contains(name, "stranger") {
			t.Errorf("it has %s", name)
		}
		for i, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s has a secret, number %d", name, i)
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
