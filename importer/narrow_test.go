package importer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/kube"
)

// A member's cost depends on what it imports: it has 3 of 300 namespaces, and receives a hundredth of the bytes. NAMESPACES=1000 is
// the size in the docs.
func TestOnlyWhatIsImportedIsReceived(t *testing.T) {
	all := 300
	if n, err := strconv.Atoi(os.Getenv("NAMESPACES")); err == nil {
		all = n
	}
	few := all / 100
	w := newWorld(t)
	w.member.InstallMCS(t)
	name := func(i int) string { return fmt.Sprintf("ns-%04d", i) }
	record := func(i int) string { return labelled("shanghai", name(i), "web", "10.2.0.1", "10.12.0.5") }
	for i := range all {
		w.hubCreate(record(i))
	}
	for i := range few {
		w.here(namespace(name(i)))
	}

	everything := w.start(Options{})
	for i := range few {
		w.imported(name(i), "web", 1)
	}
	everything.stop()

	w.narrow = true
	run := w.start(Options{})
	w.quiet(run, float64(few))
	got, of := run.hub.received(), everything.hub.received()
	t.Logf("received %d bytes of records, of %d", got, of)
	if got == 0 || got*90 > of { // less than a factor of 100, because lists and watches have overhead
		t.Errorf("received %d bytes of records; all are %d", got, of)
	}
	for _, write := range run.local.written() {
		if !strings.Contains(write, "memberclusters") {
			t.Errorf("wrote %s", write)
		}
	}

	// A namespace is created at run time, and its services are imported. Existing objects don't change, not even their resource
	// versions.
	versions := func() (all []string) {
		for i := range few {
			imp := &mcsv1beta1.ServiceImport{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: name(i), Name: "web"}, imp); err != nil {
				t.Fatal(err)
			}
			all = append(all, imp.ResourceVersion)
		}
		return all
	}
	was := versions()
	w.here(namespace(name(few)))
	w.imported(name(few), "web", 1)
	if got := run.hub.received(); got*40 > of {
		t.Errorf("received %d bytes of records since the start; all are %d", got, of)
	}
	// Changes on the hub still arrive.
	w.withdraw(record(0))
	w.gone(name(0), "web")
	w.onHub(record(0))
	w.imported(name(0), "web", 1)
	if is := versions(); fmt.Sprint(is[1:]) != fmt.Sprint(was[1:]) {
		t.Errorf("resource versions are %v, were %v", is, was)
	}
	// The new namespace may have had a placeholder for a moment: the kinds come by two watches, and the export may be there first.
	for _, write := range run.local.written() {
		if strings.HasPrefix(write, "DELETE") && !strings.Contains(write, name(0)) && !strings.Contains(write, name(few)) {
			t.Errorf("deleted: %s", write)
		}
	}
}

// A restored hub may have records of this cluster in a namespace that has gone here since the backup, and one that is back after an outage may have
// records that somebody else wrote under its name. They must be seen to be deleted.
func TestOwnRecordsOfNamespacesThatArentHere(t *testing.T) {
	for when, tell := range map[string]func(*running){
		"the hub was restored":     func(run *running) { run.relist() },
		"the exporter misses some": func(run *running) { run.unseen <- struct{}{} },
	} {
		t.Run(when, func(t *testing.T) { ownRecordsElsewhere(t, tell) })
	}
}

func ownRecordsElsewhere(t *testing.T, tell func(*running)) {
	w := newWorld(t)
	w.narrow = true
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.onHub(labelled("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{})
	w.imported("shop", "web", 1)

	w.onHub(labelled("beijing", "gone", "web", "10.1.0.1", "10.11.0.5"), labelled("shanghai", "gone", "web", "10.2.0.2", "10.12.0.6"))
	seen := func(want int) error {
		if n := len(run.known.Service(types.NamespacedName{Namespace: "gone", Name: "web"})); n != want {
			return fmt.Errorf("%d records of the namespace, want %d", n, want)
		}
		return nil
	}
	w.onHub(labelled("shanghai", "shop", "later", "10.2.0.3", "10.12.0.7"))
	w.imported("shop", "later", 1) // so what was there before has been read
	if err := seen(0); err != nil {
		t.Fatal(err)
	}
	tell(run)
	kube.Eventually(t, func() error { return seen(2) })
}
