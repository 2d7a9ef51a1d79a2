package exporter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// said returns the conditions in sorted order, such as "Conflict=False/NoConflicts Ready=True/Exported".
func said(conditions []metav1.Condition) string {
	var words []string
	for _, c := range conditions {
		words = append(words, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestConditions(t *testing.T) {
	good := exported(slice("web-1", 1))
	noService := exported()
	noService.Service = nil
	external := exported()
	external.Service.Spec.Type = corev1.ServiceTypeExternalName
	typo := exported(slice("web-1", 1))
	typo.Export.Annotations = map[string]string{"clusterset.dev/perfer": "zone"}
	some := exported(slice("web-1", 1))
	some.Export.Annotations = map[string]string{api.AnnotationShare: "25"}
	wasReady := exported()
	wasReady.Export.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Exported"}}
	webhook := fmt.Errorf("create: %w", apierrors.NewInternalError(errors.New(`failed calling webhook "x"`)))
	for _, c := range []struct {
		name string
		src  Source
		out  outcome
		want string
		says string // a part of what Ready says
	}{
		{"a webhook of the hub fails", good, outcome{err: webhook}, "Conflict=False/NoConflicts Ready=Unknown/Pending Valid=True/Valid", `failed calling webhook "x"`},
		{"a webhook of the hub fails, exported before", wasReady, outcome{err: webhook}, "Conflict=False/NoConflicts Ready=True/Exported Valid=True/Valid", ""},
		{"an unreachable hub is no problem of the service", good, outcome{err: errors.New("dial tcp 10.0.0.1:6443: connection refused")}, "Conflict=False/NoConflicts Ready=Unknown/Pending Valid=True/Valid", "waiting for the hub"},
		{"it fails for long", wasReady, outcome{err: webhook, failing: passPatience}, "Conflict=False/NoConflicts Ready=Unknown/Pending Valid=True/Valid", ""},
		{"exported, but for what isn't used", typo, outcome{}, "Conflict=False/NoConflicts Ready=True/Exported Valid=True/Valid clusterset.dev/Complete=False/NotUsed", ""},
		{"exported", good, outcome{}, "Conflict=False/NoConflicts Ready=True/Exported Valid=True/Valid", ""},
		{"a share of it", some, outcome{}, "Conflict=False/NoConflicts Ready=True/Exported Valid=True/Valid clusterset.dev/Shared=True/Share", ""},
		{"no Service", noService, outcome{}, "Conflict=False/NoConflicts Ready=False/Pending Valid=False/NoService", ""},
		{"ExternalName", external, outcome{}, "Conflict=False/NoConflicts Ready=False/Failed Valid=False/InvalidServiceType", ""},
		{"refused by the hub", good, outcome{err: errors.New("quota"), refused: true}, "Conflict=False/NoConflicts Ready=False/Failed Valid=True/Valid", ""},
		{"hub not heard yet", good, outcome{err: errNotSynced}, "Ready=Unknown/Pending Valid=True/Valid", ""},
		{"the name is taken, exported before", wasReady, outcome{err: &suspended{reason: api.ReasonNameTaken}}, "Ready=False/NameTaken Valid=True/Valid", ""},
		{"hub away, exported before", wasReady, outcome{err: errNotSynced}, "Ready=True/Exported Valid=True/Valid", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := desired(c.src)
			var conflict *metav1.Condition
			if !errors.Is(c.out.err, errNotSynced) {
				conflict = conflictOf(d.Service, nil, unknown)
			}
			got := c.src.Export.DeepCopy()
			got.Status.Conditions = nil
			setConditions(got, wantedConditions(c.src.Export, d, c.out, conflict))
			ready := meta.FindStatusCondition(got.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady))
			if got := said(got.Status.Conditions); got != c.want || !strings.Contains(ready.Message, c.says) {
				t.Errorf("got  %s\nwant %s; Ready says %q", got, c.want, ready.Message)
			}
		})
	}
}

func TestConditionsAreWrittenOnlyWhenTheyChange(t *testing.T) {
	src := exported(slice("web-1", 1))
	src.Export.Status.Conditions = []metav1.Condition{{Type: "Foreign", Status: "True", Reason: "Other"}}
	d := desired(src)
	say := func() []metav1.Condition {
		return wantedConditions(src.Export, d, outcome{}, conflictOf(d.Service, nil, unknown))
	}
	events, changed := setConditions(src.Export, say())
	if changed.Len() == 0 || len(events) != 3 {
		t.Fatalf("changed %v, events %v", changed, events)
	}
	if events, changed = setConditions(src.Export, say()); changed.Len() > 0 || len(events) != 0 {
		t.Errorf("the same conditions again: changed %v, events %v", changed, events)
	}
	// What isn't used is said when it begins, and no longer when it has ended. Rule C61 of docs/spec/control-plane.md.
	right := d.LeftOut
	d.LeftOut = api.Left(field.Invalid(exportAnnotations, "x", "y"))
	events, _ = setConditions(src.Export, say())
	if kind, worth := eventType(events[0]); len(events) != 1 || events[0].Reason != api.ReasonNotUsed || kind != corev1.EventTypeWarning || !worth {
		t.Errorf("events %v", events)
	}
	d.LeftOut = right
	if events, changed = setConditions(src.Export, say()); changed.Len() == 0 || len(events) != 0 || strings.Contains(said(src.Export.Status.Conditions), api.ReasonNotUsed) {
		t.Errorf("it has ended: changed %v, events %v, %s", changed, events, said(src.Export.Status.Conditions))
	}
	src.Export.Generation++
	if events, changed = setConditions(src.Export, say()); changed.Len() == 0 || len(events) != 0 {
		t.Errorf("a new generation: changed %v, events %v", changed, events)
	}
	// While the hub is away, what was ready stays ready: as of the generation that the hub has.
	src.Export.Generation++
	setConditions(src.Export, wantedConditions(src.Export, d, outcome{}, conflictOf(d.Service, nil, unknown)))
	ready := meta.FindStatusCondition(src.Export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady))
	if ready.Status = metav1.ConditionTrue; ready.ObservedGeneration != src.Export.Generation {
		t.Fatalf("Ready is of generation %d, want %d", ready.ObservedGeneration, src.Export.Generation)
	}
	src.Export.Generation++
	setConditions(src.Export, wantedConditions(src.Export, d, outcome{err: errors.New("no route to host")}, conflictOf(d.Service, nil, unknown)))
	if ready.ObservedGeneration != src.Export.Generation-1 {
		t.Errorf("kept, it is of generation %d, want %d", ready.ObservedGeneration, src.Export.Generation-1)
	}
	if !strings.Contains(said(src.Export.Status.Conditions), "Foreign=True/Other") {
		t.Errorf("a foreign condition is gone: %s", said(src.Export.Status.Conditions))
	}
}

// Rule C16 of docs/spec/control-plane.md.
func TestConflictIsOnEveryExport(t *testing.T) {
	older, younger := exported(), exported()
	younger.Cluster = "lyon"
	younger.Export.CreationTimestamp = metav1.NewTime(epoch.AddDate(0, 0, 1))
	younger.Service.Spec.Ports[0].Port = 81
	a, b := desired(older).Service, desired(younger).Service
	for _, c := range []*metav1.Condition{
		conflictOf(a, compact(b), unknown),
		conflictOf(b, compact(a), unknown),
	} {
		if c.Status != metav1.ConditionTrue || c.Reason != string(mcsv1beta1.ServiceExportReasonPortConflict) || !strings.Contains(c.Message, "beijing") {
			t.Errorf("got %s=%s/%s %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// Rule C1 of docs/spec/control-plane.md.
func TestMark(t *testing.T) {
	mark := map[string]string{api.KeyGlobalService: "true"}
	marked := func(s *corev1.Service) { s.Labels = maps.Clone(mark) }
	annotated := func(s *corev1.Service) { s.Annotations = mark }
	local := func(s *corev1.Service) { s.Annotations = map[string]string{api.KeyGlobalService: "false"} }
	derived := func(s *corev1.Service) { metav1.SetMetaDataLabel(&s.ObjectMeta, api.LabelServiceName, "web") }
	ours, ofNamespace := markedExport(service(marked), false, nil), markedExport(service(), true, nil)
	ours.UID = "export-uid"
	adopted := ours.DeepCopy()
	delete(adopted.Labels, api.LabelManagedBy)
	remade := service(marked, func(s *corev1.Service) { s.UID = "another" })
	for _, c := range []struct {
		name           string
		namespace      bool // is marked
		svc            *corev1.Service
		export         *mcsv1beta1.ServiceExport
		create, delete bool
	}{
		{"label", false, service(marked), nil, true, false},
		{"annotation", false, service(annotated), nil, true, false},
		{"no mark", false, service(), nil, false, false},
		{"no Service", false, nil, nil, false, false},
		{"mark and a user's export", false, service(marked), export(), false, false},
		{"user's export without a mark", false, service(), export(), false, false},
		{"mark and our export", false, service(marked), ours, false, false},
		{"mark gone", false, service(), ours, false, true},
		{"Service gone", false, nil, ours, false, true},
		{"Service made anew", false, remade, ours, false, true},
		{"our export adopted by its user", false, service(), adopted, false, false},
		{"derived Service of a marked one", false, service(marked, derived), nil, false, false},
		{"Service being deleted", false, service(marked, func(s *corev1.Service) { s.DeletionTimestamp = &epoch }), nil, false, false},
		{"namespace", true, service(), nil, true, false},
		{"a user's export there", true, service(), export(), false, false},
		{"our export there", true, service(), ofNamespace, false, false},
		{"Service that stays", true, service(local), nil, false, false},
		{"Service that is to stay from now on", true, service(local), ofNamespace, false, true},
		{"marked both ways", true, service(local, marked), nil, true, false},
		{"derived Service there", true, service(derived), nil, false, false},
		{"ExternalName", true, service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), nil, false, false},
		{"the API server's", true, service(func(s *corev1.Service) { s.Namespace, s.Name = "default", "kubernetes" }), nil, false, false},
		{"another of that name", true, service(func(s *corev1.Service) { s.Name = "kubernetes" }), nil, true, false},
		{"no Service there", true, nil, nil, false, false},
		{"the namespace's mark gone", false, service(), ofNamespace, false, true},
	} {
		if got := markedExport(c.svc, c.namespace, c.export) != nil; got != c.create {
			t.Errorf("%s: create is %v", c.name, got)
		}
		if got := unmarkedExport(c.svc, c.namespace, c.export); got != c.delete {
			t.Errorf("%s: delete is %v", c.name, got)
		}
	}
}

// A changed number of clusters in a conflict's message doesn't cause a write. Otherwise, one cluster that exports a thousand shared
// services would make every other cluster patch a thousand ServiceExports.
func TestCountsAreNoReasonToWrite(t *testing.T) {
	export := &mcsv1beta1.ServiceExport{}
	say := func(reason mcsv1beta1.ServiceExportConditionReason, message string) bool {
		_, changed := setConditions(export, []metav1.Condition{mcsv1beta1.NewServiceExportCondition(
			mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionTrue, reason, message)})
		return changed.Len() > 0
	}
	const before = "ports: a, b, c, d, e and 2 more (7 of 12 clusters) disagree with z, whose export is the oldest (2026-01-01T00:00:00Z); z has 80/TCP, a has 81/TCP"
	for _, step := range []struct {
		message string
		changed bool
	}{
		{before, true},
		{strings.NewReplacer("2 more", "9 more", "7 of 12", "14 of 250").Replace(before), false},
		{strings.Replace(before, "a has 81", "a has 82", 1), true},
		{strings.Replace(before, "a, b", "a, bb", 1), true},
	} {
		if got := say(mcsv1beta1.ServiceExportReasonPortConflict, step.message); got != step.changed {
			t.Errorf("%q: written %t, want %t", step.message, got, step.changed)
		}
	}
}

// unknown returns the MemberCluster of a cluster that the hub doesn't know: nil.
func unknown(string) *clustersetv1alpha1.MemberCluster { return nil }

// compact returns what the store of the hub has of records.
func compact(all ...*clustersetv1alpha1.ExportedService) (values []*door.Export) {
	for _, s := range all {
		values = append(values, door.CompactService(s, time.Now()))
	}
	return values
}
