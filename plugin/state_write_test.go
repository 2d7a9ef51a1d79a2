package clusterset

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// The file is written at the first sync, on shutdown, and at most every 30 seconds no matter how much changes. If nothing
// changes, it is only written to refresh its age.
func TestStateFileIsWrittenAtABoundedRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, 0)
		s.start()
		written, count := time.Time{}, 0
		look := func() bool {
			synctest.Wait()
			state, _, err := statefile.Read(path)
			if err != nil || state.Known.Equal(written) {
				return false
			}
			written, count = state.Known, count+1
			return true
		}
		pass(time.Hour)
		if look() {
			t.Error("written before the first sync")
		}
		syncAll(s, numberedVIP(0))
		pass(time.Second)
		if !look() {
			t.Error("not written at the first sync")
		}
		for i := range 600 { // one change a second for ten minutes
			s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(i), nil)
			pass(time.Second)
			look()
		}
		if count < 15 || count > 21 {
			t.Errorf("%d writes in ten minutes of changes", count)
		}
		pass(time.Minute)
		look()
		if got := readState(t, path).Objects; !reflect.DeepEqual(got, []index.Object{numberedVIP(599)}) {
			t.Errorf("the file has %v", got)
		}
		count = 0
		for range 59 {
			s.replace(index.KindServiceImport, []index.Object{numberedVIP(599)}) // listed again, unchanged
			pass(time.Minute)
			look()
		}
		if count > 1 {
			t.Errorf("%d writes while nothing changed", count)
		}
		s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(1000), nil)
		s.close()
		if got := readState(t, path).Objects; !reflect.DeepEqual(got, []index.Object{numberedVIP(1000)}) {
			t.Errorf("at the end the file has %v", got)
		}
	})
}

// A change that affects no answer causes no write, such as an object that is listed again or that has different but
// equivalent content.
func TestStateFileIsNotWrittenForWhatNoAnswerShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		write := writeState
		defer func() { writeState = write }()
		writeState = func(path string, s *statefile.State) error { writes++; return write(path, s) }
		s := keptSource(t, path, 0)
		s.start()
		syncAll(s, numberedVIP(0))
		pass(time.Minute)
		synctest.Wait()
		writes = 0
		for i := range 50 {
			o := numberedVIP(0)
			o.Ports = append(o.Ports, index.Port{Number: uint16(1000 + i)}) // a port without a name has no SRV record
			s.put(index.KindServiceImport, index.ObjectID{}, o, nil)
			pass(time.Minute)
		}
		synctest.Wait()
		if writes > 1 {
			t.Errorf("%d writes", writes)
		}
		s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(1), nil)
		pass(time.Minute)
		synctest.Wait()
		if writes > 2 {
			t.Errorf("%d writes of one change", writes)
		}
		s.close()
	})
}

// If a write takes ten seconds, the file is written at most once every 200 seconds, no matter how much changes, and again
// on shutdown.
func TestASlowWriteIsFollowedByALongRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []time.Time
		write := writeState
		defer func() { writeState = write }()
		writeState = func(string, *statefile.State) error {
			began = append(began, time.Now())
			pass(10 * time.Second)
			return nil
		}
		s := keptSource(t, filepath.Join(t.TempDir(), "snapshot"), 0)
		s.start()
		syncAll(s, numberedVIP(0))
		for i := range 3550 { // the last write has ended by then
			s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(i+1), nil)
			pass(time.Second)
		}
		synctest.Wait()
		if len(began) != 18 {
			t.Errorf("%d writes in an hour", len(began))
		}
		for i := 1; i < len(began); i++ {
			if rest := began[i].Sub(began[i-1]); rest < 200*time.Second {
				t.Errorf("write %d follows after %v", i, rest)
			}
		}
		n := len(began)
		s.close()
		if len(began) != n+1 {
			t.Error("not written at the end")
		}
	})
}

// A file's age tells when its content was last known to be right. With a quiet cluster the age stays low; with a lost
// cluster it grows.
func TestStateFileAgeIsThatOfTheLastContact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, time.Hour)
		s.start()
		syncAll(s, numberedVIP(0))
		age := func() time.Duration { return time.Since(readState(t, path).Known) }
		pass(10 * time.Hour)
		if age() > 20*time.Minute {
			t.Errorf("of a quiet cluster it is %v old", age())
		}
		s.reachable(index.KindEndpointSlice, false)
		pass(10 * time.Hour)
		if age() < 10*time.Hour {
			t.Errorf("of a lost cluster it is %v old", age())
		}
		s.close()
		if age() < 9*time.Hour+59*time.Minute {
			t.Errorf("of a lost cluster it is %v old once the server has ended", age())
		}
		late := keptSource(t, path, time.Hour)
		late.start()
		if late.indexes[0].Snapshot() != nil {
			t.Error("it is served, though too old")
		}
		late.close()
	})
}

// A ClusterRole without Reachability is no reason to refuse the file: a server without verdicts answers all the same.
func TestStateFileAgesOnlyWithoutWhatAnswersNeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, time.Hour)
		s.start()
		s.reachable(index.KindReachability, false)
		for _, k := range index.Kinds {
			if k != index.KindReachability {
				s.reachable(k, true)
			}
			s.read(k)
		}
		pass(10 * time.Hour)
		s.close()
		if age := time.Since(readState(t, path).Known); age > 20*time.Minute {
			t.Errorf("it is %v old", age)
		}
	})
}

func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	m := &dto.Metric{}
	if err := c.Write(m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// A failed write of the file is logged and counted. It has no other effect.
func TestAFileThatCantBeWrittenStopsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, 0)
		s.start()
		failed, ok := counterValue(t, stateWrites.WithLabelValues("error")), counterValue(t, stateWrites.WithLabelValues("ok"))
		syncAll(s, numberedVIP(1))
		pass(10 * time.Minute)
		synctest.Wait()
		if got := counterValue(t, stateWrites.WithLabelValues("error")) - failed; got < 15 || got > 21 {
			t.Errorf("%v failures in ten minutes", got)
		}
		s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(2), nil)
		if got := s.indexes[0].Snapshot().Service("web.ns").Set(index.MCS).Addrs[0]; got != numberedVIP(2).IPs[0] {
			t.Errorf("answers stand still: %v", got)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		synctest.Wait()
		if got := counterValue(t, stateWrites.WithLabelValues("ok")) - ok; got != 1 {
			t.Errorf("%v writes once there is a folder", got)
		}
		s.close()
	})
}
