package retention

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
	"github.com/clusterset/clusterset/test/script"
)

// A hub that has just been restored has enough to do. However many services of a silent cluster are missing, its Lease is read once, and
// ever less often.
func TestLeasesAreReadSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parts := []Part{w.part}
		for i := range 10 {
			parts = append(parts, Part{types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web", i)}, "shanghai", ""})
		}
		reads := map[time.Duration]int{}
		for at := time.Duration(0); at < 20*time.Minute; at += time.Second {
			for _, p := range parts {
				if d := w.decide(p); len(d.Use.Exports) != 1 {
					t.Fatalf("after %s: %+v", at, d)
				}
			}
			reads[at] = w.reads
			script.Elapse(time.Second)
		}
		if early, minute, all := reads[VanishedGrace+w.Spread-time.Second], reads[time.Minute], reads[20*time.Minute-time.Second]; early != 0 || minute > 4 || all > 25 {
			t.Errorf("it read %d at once, %d in a minute and %d in all", early, minute, all)
		}
	})
}

// Clusters that join and leave under ever new names take no memory.
func TestClustersThatLeftAreForgotten(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	k := &Keeper{Clock: clock}
	for i := range 1000 {
		left := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i)), DeletionTimestamp: &metav1.Time{Time: clock.Now()}}}
		if err := k.Left(left); !errors.Is(err, errLeaving) {
			t.Fatalf("one that has just left: %v", err)
		}
		clock.Step(leaveGrace)
		if err := k.Left(left); err != nil {
			t.Fatalf("one that left a moment ago: %v", err)
		}
	}
	if n := len(k.left); n > int(rememberedFor/leaveGrace)+1 {
		t.Errorf("it remembers %d clusters that left", n)
	}
}

func TestDeparturesAreNotedAndForgotten(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	gone := NewDepartures(clock)
	in := records.Input(t, desired.DataPathPods, records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"))
	service, endpoints := in.Services[0], in.Endpoints[0]
	ofService, _ := partOf(service)
	ofEndpoints, _ := partOf(endpoints)

	type how struct{ withdrawn, seen bool }
	check := func(p Part, want how) {
		t.Helper()
		if withdrawn, seen := gone.how(p); (how{withdrawn, seen}) != want {
			t.Errorf("withdrawn %v, seen %v, want %+v", withdrawn, seen, want)
		}
	}
	gone.Note(endpoints, nil, false)
	check(ofEndpoints, how{seen: true})
	gone.Note(endpoints, nil, true)
	check(ofEndpoints, how{})
	endpoints.Annotations = map[string]string{api.AnnotationWithdrawn: "true"}
	gone.Note(endpoints, nil, false)
	check(ofEndpoints, how{true, true})
	check(ofService, how{})
	clock.SetTime(clock.Now().Add(rememberedFor + time.Second))
	check(ofEndpoints, how{})
	service.Annotations = endpoints.Annotations
	gone.Note(service, nil, true) // its mark was seen
	check(ofEndpoints, how{true, true})
	if len(gone.of) != 1 {
		t.Errorf("it remembers %v", gone.of)
	}
}
