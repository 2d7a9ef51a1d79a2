package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/fleettest"
)

// quotaBytes is the size limit in bytes of each etcd of a chaos fleet. It is more than the fleet needs, and quickly filled.
const quotaBytes = 40 << 20

// ballast is the data that fills an etcd.
var ballast = client.MatchingLabels{"clusterset-test/ballast": "true"}

// fill writes to a cluster until its etcd is full, which raises etcd's NOSPACE alarm: every write is refused until someone
// makes room and disarms the alarm.
func (c *run) fill(of *fleettest.Cluster) {
	c.Helper()
	for i := 0; ; i++ {
		err := of.Client.Create(context.Background(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "ballast-", Labels: ballast},
			Data:       map[string]string{"content": strings.Repeat("ballast ", 120<<10)},
		})
		switch {
		case err != nil && strings.Contains(err.Error(), "database space exceeded"):
			c.touched("etcd refused a user's write")
			return
		case err != nil:
			c.Fatalf("fill the etcd of %s: %v", of.Dir, err)
		case i > 2*quotaBytes>>20:
			c.Fatalf("the etcd of %s takes %d MB, in spite of its quota", of.Dir, i)
		}
	}
}

// empty follows etcd's maintenance guide: delete, compact, defragment, disarm.
func (c *run) empty(of *fleettest.Cluster) {
	c.Helper()
	ctx := context.Background()
	c.must(of.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), ballast))
	call := func(path string, request any) (answer struct {
		Header struct{ Revision, MemberID string }
		Alarms []struct{ MemberID, Alarm string }
	},
	) {
		c.Helper()
		content, err := of.Plane.CallEtcd(ctx, path, request)
		c.must(err)
		content = []byte(strings.NewReplacer(`"member_id"`, `"memberID"`).Replace(string(content)))
		if err := json.Unmarshal(content, &answer); err != nil {
			c.Fatalf("etcd %s: %v\n%s", path, err, content)
		}
		return answer
	}
	now := call("/v3/kv/range", map[string]any{"key": "AA=="})
	call("/v3/kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true})
	call("/v3/maintenance/defragment", struct{}{})
	alarms := call("/v3/maintenance/alarm", map[string]any{"action": "GET"}).Alarms
	if len(alarms) == 0 {
		c.Error("etcd was full and raised no alarm")
	}
	for _, a := range alarms {
		call("/v3/maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": a.MemberID, "alarm": a.Alarm})
	}
	c.until(func() error {
		if left := call("/v3/maintenance/alarm", map[string]any{"action": "GET"}).Alarms; len(left) > 0 {
			return fmt.Errorf("alarms: %v", left)
		}
		return nil
	})
}
