// Package bundle collects what a maintainer needs to understand a set: objects, Events, logs, metrics and the output of other commands. It never
// reads a Secret, and removes what looks like a credential from everything else. It is `clusterset bundle`.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
)

const (
	// maxAnswer is the most bytes of what a pod answers.
	maxAnswer = 16 << 20
	// maxLog is the most bytes of the log of a container, the last ones.
	maxLog = 2 << 20
)

// Cluster is a cluster to collect from.
type Cluster struct {
	*objects.Cluster
	// Name is its folder in the archive.
	Name string
	pods kubernetes.Interface
}

// NewCluster returns a cluster whose folder has that name.
func NewCluster(c *objects.Cluster, name string) (*Cluster, error) {
	pods, err := objects.PodClient(c.Config, maxAnswer)
	return &Cluster{c, name, pods}, err
}

// Writer writes the archive.
type Writer struct {
	gz  *gzip.Writer
	tar *tar.Writer
	now time.Time
	// Left is what couldn't be read, and why.
	Left []string
	err  error
}

// NewWriter begins an archive.
func NewWriter(w io.Writer, now time.Time) *Writer {
	gz := gzip.NewWriter(w)
	return &Writer{gz: gz, tar: tar.NewWriter(gz), now: now}
}

// Add adds a file, without credentials.
func (w *Writer) Add(name string, content []byte) {
	if w.err != nil {
		return
	}
	content = Redact(content)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "clusterset-bundle/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: w.now, Format: tar.FormatPAX}
	if w.err = w.tar.WriteHeader(header); w.err == nil {
		_, w.err = w.tar.Write(content)
	}
}

func (w *Writer) leave(what string, err error) {
	w.Left = append(w.Left, what+": "+strings.Join(strings.Fields(err.Error()), " "))
}

// Close ends the archive with a list of what isn't in it.
func (w *Writer) Close() error {
	w.Add("left-out.txt", []byte(strings.Join(append(w.Left, ""), "\n")))
	return errors.Join(w.err, w.tar.Close(), w.gz.Close())
}

var credentials = []*regexp.Regexp{
	regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`),                       // a JSON Web Token, as of ServiceAccounts
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), // the end may be cut off
	regexp.MustCompile(`(?i)\b(?:bearer|basic) +[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)(?:token|password|client-key-data|secret[-_]?key)["']?\s*[:=]\s*["']?[^\s"',;]{6,}`),
}

// Redact replaces what looks like a credential.
func Redact(content []byte) []byte {
	for _, c := range credentials {
		content = c.ReplaceAll(content, []byte("[removed]"))
	}
	return content
}

// kinds are read from each cluster, as far as it serves them. Secrets aren't, nor ConfigMaps, which may hold anything.
var kinds = []string{
	"MemberCluster.clusterset.dev", "Reachability.clusterset.dev", "MemberReport.clusterset.dev", "ExportedService.clusterset.dev", "ExportedEndpoints.clusterset.dev",
	"GlobalService.dns.fabedge.io", "ServiceExport.multicluster.x-k8s.io", "ServiceImport.multicluster.x-k8s.io", "ClusterProperty.about.k8s.io",
	"EndpointSlice.discovery.k8s.io", "Lease.coordination.k8s.io", "Event",
}

// only limits kinds that others have too.
var only = map[string][]client.ListOption{
	"EndpointSlice": {client.HasLabels{api.LabelSourceCluster}}, "Lease": {client.MatchingFields{"metadata.name": api.HeartbeatLease}},
}

// Collect adds what a cluster has.
func (w *Writer) Collect(ctx context.Context, c *Cluster) {
	for _, name := range kinds {
		k := schema.ParseGroupKind(name)
		mapping, err := c.RESTMapper().RESTMapping(k)
		if meta.IsNoMatchError(err) {
			continue
		}
		list := &unstructured.UnstructuredList{}
		if err == nil {
			gvk := mapping.GroupVersionKind
			gvk.Kind += "List"
			list.SetGroupVersionKind(gvk)
			err = c.List(ctx, list, only[k.Kind]...)
		}
		if err != nil {
			w.leave(c.Name+" "+k.Kind, c.Words(err))
			continue
		}
		if k.Kind == "Event" {
			list.Items = slices.DeleteFunc(list.Items, func(e unstructured.Unstructured) bool { return !ours(&e) })
		}
		w.objects(c.Name+"/"+strings.ToLower(k.Kind)+".yaml", list.Items)
	}
	w.pods(ctx, c)
}

// ours reports whether an Event is of clusterset, or about its pods or kinds.
func ours(e *unstructured.Unstructured) bool {
	return strings.Contains(fmt.Sprint(e.Object["source"], e.Object["reportingComponent"], e.Object["involvedObject"]), "clusterset")
}

func (w *Writer) objects(name string, items []unstructured.Unstructured) {
	var all strings.Builder
	for i := range items {
		items[i].SetManagedFields(nil)
		annotations := items[i].GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		items[i].SetAnnotations(annotations)
		content, err := yaml.Marshal(items[i].Object)
		if err != nil {
			w.leave(name, err)
			return
		}
		all.WriteString("---\n")
		all.Write(content)
	}
	w.Add(name, []byte(all.String()))
}

// pods adds the state, logs and metrics of clusterset's pods: not their specifications, whose variables may be secret.
func (w *Writer) pods(ctx context.Context, c *Cluster) {
	pods, err := c.Pods(ctx)
	if err != nil {
		w.leave(c.Name+" pods", err)
		return
	}
	for i := range pods {
		p := &pods[i]
		at := c.Name + "/pods/" + p.Namespace + "/" + p.Name
		state, err := yaml.Marshal(map[string]any{"name": p.Name, "namespace": p.Namespace, "labels": p.Labels, "node": p.Spec.NodeName, "status": p.Status})
		if err != nil {
			w.leave(at, err)
			continue
		}
		w.Add(at+"/status.yaml", state)
		for _, container := range p.Spec.Containers {
			w.logs(ctx, c, p, container.Name, at)
			for _, port := range container.Ports {
				if port.Name == "metrics" {
					w.metrics(ctx, c, p, port.ContainerPort, at)
				}
			}
		}
	}
}

func (w *Writer) logs(ctx context.Context, c *Cluster, p *corev1.Pod, container, at string) {
	lines, limit := int64(20_000), int64(maxLog)
	for _, previous := range []bool{false, true} {
		name := at + "/" + container + map[bool]string{false: ".log", true: ".previous.log"}[previous]
		w.answer(ctx, name, !previous, c.pods.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: &lines, LimitBytes: &limit, Timestamps: true,
		}))
	}
}

func (w *Writer) metrics(ctx context.Context, c *Cluster, p *corev1.Pod, port int32, at string) {
	w.answer(ctx, at+"/metrics.txt", true, c.pods.CoreV1().Pods(p.Namespace).ProxyGet("http", p.Name, fmt.Sprint(port), "metrics", nil))
}

// answer adds what an API server answers. What isn't expected need not be there.
func (w *Writer) answer(ctx context.Context, name string, expected bool, from rest.ResponseWrapper) {
	if content, err := from.DoRaw(ctx); err == nil {
		w.Add(name, content)
	} else if expected {
		w.leave(name, err)
	}
}
