package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Each file of testdata is a script: what happens on the hub, communities included, and what the store then has and told. The commands are
// those of script.run. A list is sorted, and "-" is an empty one.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		lines, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, noStreams := range []bool{false, true} {
			name := strings.TrimSuffix(filepath.Base(file), ".txt") + map[bool]string{false: "/streamed", true: "/listed"}[noStreams]
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScript(t, noStreams)
					for n, line := range strings.Split(string(lines), "\n") {
						if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
							if err := s.run(words[0], words[1:]); err != nil {
								t.Fatalf("%s:%d: %s\n%v", file, n+1, line, err)
							}
						}
					}
				})
			})
		}
	}
}

type script struct {
	*Store
	t       *testing.T
	hub     *fakeHub
	options Options
	restore func()

	mu      sync.Mutex
	records []string
	members []string
	over    []string
}

func newScript(t *testing.T, noStreams bool) *script {
	s := &script{t: t, hub: newHub(), options: Options{Cluster: "a"}}
	s.hub.noStreams = noStreams
	s.options.Over = func(cluster string, over bool) { s.note(&s.over, fmt.Sprint(cluster, "=", over)) }
	return s
}

func (s *script) note(in *[]string, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*in = append(*in, what)
}

func (s *script) begin() {
	s.Store = New(s.hub, s.options)
	s.OnRecords(func(cluster string, key types.NamespacedName) {
		s.note(&s.records, cluster+"/"+key.String())
		s.Service(key) // it isn't locked
	})
	s.OnMember(func(name string) { s.note(&s.members, name) })
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Start(ctx) }()
	s.t.Cleanup(func() { cancel(); <-done; synctest.Wait() })
}

// elapse advances the fake clock, and waits for everything due by then.
func elapse(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's clock
	synctest.Wait()
}

// run runs a command.
func (s *script) run(command string, args []string) error {
	if s.Store == nil && command != "options" && command != "put" && command != "slice" {
		s.begin()
	}
	h := s.hub
	switch command {
	case "options": // memory=BYTES services=NUMBER
		for _, a := range args {
			name, value, _ := strings.Cut(a, "=")
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			*map[string]*int{"memory": &s.options.MaxMemory, "services": &s.options.MaxServices}[name] = n
		}
	case "put": // REVISION CLUSTER/NAMESPACE/SERVICE...
		for _, a := range args[1:] {
			h.put(exported(a, args[0]))
		}
	case "slice": // SUFFIX ADDRESSES CLUSTER/NAMESPACE/SERVICE...
		for _, a := range args[2:] {
			h.put(slice(a, args[0], args[1]))
		}
	case "gone": // CLUSTER/NAMESPACE/SERVICE[/SUFFIX]...
		for _, a := range args {
			h.remove(at(a))
		}
	case "member", "leave": // CLUSTER...
		for _, a := range args {
			if command == "member" {
				h.put(memberOf(a, true))
			} else {
				h.remove(object{members, "", a})
			}
		}
	case "peers": // these of a to d, "*" for all without communities
		joins := map[string]bool{}
		for _, c := range []string{"a", "b", "c", "d", "e"} {
			joins[c] = args[0] == "*" || slices.Contains(args, c)
		}
		for _, joining := range []bool{true, false} { // those that come first, so that no other cluster goes for a moment
			for _, c := range []string{"e", "d", "c", "b", "a"} {
				if joins[c] == joining {
					h.put(memberOf(c, joining))
				}
			}
		}
	case "forget": // what was asked, told and over
		h.asked()
		s.take(&s.records)
		s.take(&s.over)
	case "relist":
		s.Relist()
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		elapse(d)
	case "cut":
		h.do(func() { close(h.cut); h.cut = make(chan struct{}) })
	case "compact":
		h.do(func() { h.oldest = h.version + 1; h.version++ })
	case "fail":
		h.do(func() {
			h.fails = map[string]error{
				"refused": errors.New("refused"), "busy": apierrors.NewTooManyRequests("", 1), "503": apierrors.NewServiceUnavailable(""),
			}[args[0]]
		})
	case "forbid", "silence": // CLUSTER..., or * for requests of all at once
		h.do(func() {
			for _, a := range args {
				namespace := api.MemberNamespace(a)
				if a == "*" {
					namespace = ""
				}
				map[string]map[string]bool{"forbid": h.forbidden, "silence": h.silent}[command][namespace] = true
			}
		})
	case "lag": // from now on watches are opened at an API server that learns of no change
		h.do(func() { h.lag = h.version })
	case "hold":
		h.do(func() { h.held = true })
	case "break":
		h.do(func() { h.breaks = true })
	case "heal": // ends all of these
		h.do(func() { h.fails, h.held, h.breaks, h.lag = nil, false, false, 0; clear(h.forbidden); clear(h.silent) })
	case "backup":
		s.restore = h.backup()
	case "restore":
		s.restore()
	default:
		return s.check(command, args)
	}
	synctest.Wait()
	return nil
}

// check compares what the store has or told with what is wanted.
func (s *script) check(command string, args []string) error {
	got := map[string]func() []string{
		"has":     s.has,
		"capped":  s.capped,
		"own":     s.own,
		"members": func() []string { return names(s.Members()) },
		"told":    func() []string { return s.take(&s.records) },
		"toldmembers": func() []string {
			return s.take(&s.members)
		},
		"over":  func() []string { return s.take(&s.over) },
		"asked": s.hub.asked,
		"ways": func() (all []string) { // of what was asked, without the rest
			for _, a := range s.hub.asked() {
				all = append(all, strings.Split(a, ":")[0])
			}
			return slices.Compact(all)
		},
		"synced":  func() []string { return []string{fmt.Sprint(s.HasSynced())} },
		"watched": func() []string { return []string{fmt.Sprint(s.Watched())} },
		"state":   func() []string { return []string{[]string{"unknown", "live", "away"}[s.State().Phase]} },
		"back": func() []string {
			select {
			case <-s.Back():
				return []string{"true"}
			default:
				return []string{"false"}
			}
		},
		"unread": func() (all []string) {
			for _, c := range []string{"a", "b", "c", "d"} {
				if !s.Read(c) {
					all = append(all, c)
				}
			}
			return all
		},
	}[command]
	if got == nil {
		return errors.New("no such command")
	}
	if is := got(); !slices.Equal(is, slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-" })) {
		return fmt.Errorf("it is %s", strings.Join(is, " "))
	}
	return nil
}

func (s *script) take(from *[]string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := *from
	*from = nil
	slices.Sort(all)
	return all
}

// has returns CLUSTER/NAMESPACE/SERVICE@REVISION+SUFFIX:ENDPOINTS of all records.
func (s *script) has() (all []string) {
	for _, key := range s.All() {
		for _, p := range s.Service(key) {
			text := p.Cluster + "/" + key.String()
			if p.Export != nil {
				text += fmt.Sprint("@", p.Export.Revision)
			}
			for _, e := range p.Endpoints {
				text += fmt.Sprintf("+%s:%d", e.Name[strings.LastIndex(e.Name, ".")+1:], len(e.Endpoints))
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

func (s *script) capped() (all []string) {
	for _, key := range s.All() {
		for _, p := range s.Service(key) {
			if p.Capped {
				all = append(all, p.Cluster+"/"+key.String())
			}
		}
	}
	slices.Sort(all)
	return all
}

// own returns SERVICE@REVISION+SUFFIX... of this cluster's own records, by their objects.
func (s *script) own() (all []string) {
	for _, key := range s.Keys("a") {
		text := key.String()
		export, slices := s.Own(key)
		if export != nil {
			text += fmt.Sprint("@", export.Spec.Revision)
		}
		for _, e := range slices {
			text += "+" + e.Name[strings.LastIndex(e.Name, ".")+1:]
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

func names(of []*clustersetv1alpha1.MemberCluster) (all []string) {
	for _, m := range of {
		all = append(all, m.Name)
	}
	return all
}

// memberOf returns a MemberCluster in the default community, or in one of its own.
func memberOf(name string, shares bool) *clustersetv1alpha1.MemberCluster {
	m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !shares {
		m.Spec.Communities = []string{name}
	}
	return m
}

func metadata(cluster, namespace, service, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: api.MemberNamespace(cluster), Name: service + "." + namespace + suffix, UID: types.UID(cluster + namespace + service + suffix),
		CreationTimestamp: metav1.Unix(1, 0),
	}
}

// exported returns a record of CLUSTER/NAMESPACE/SERVICE. A revision that is negative says that it is withdrawn.
func exported(path, revision string) *clustersetv1alpha1.ExportedService {
	p := strings.Split(path, "/")
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		panic(err)
	}
	return &clustersetv1alpha1.ExportedService{ObjectMeta: metadata(p[0], p[1], p[2], ""), Spec: clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: p[1], ServiceName: p[2], Type: mcsv1beta1.ClusterSetIP, Revision: max(n, -n), Withdrawn: n < 0, ExportedAt: metav1.Unix(1, 0),
	}}
}

func slice(path, suffix, addresses string) *clustersetv1alpha1.ExportedEndpoints {
	p := strings.Split(path, "/")
	e := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: metadata(p[0], p[1], p[2], "."+suffix), Spec: clustersetv1alpha1.ExportedEndpointsSpec{
		ServiceNamespace: p[1], ServiceName: p[2], AddressType: discoveryv1.AddressTypeIPv4,
	}}
	for _, a := range strings.Split(addresses, ",") {
		e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{a}})
	}
	return e
}

func at(path string) object {
	p := strings.Split(path, "/")
	if len(p) == 4 {
		return object{endpoints, api.MemberNamespace(p[0]), p[2] + "." + p[1] + "." + p[3]}
	}
	return object{services, api.MemberNamespace(p[0]), p[2] + "." + p[1]}
}
