package clusterset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/clusterset/clusterset/internal/statefile"
)

// identity returns what is known of the cluster so far: its CA from the configuration, and its UID once the API server
// has been reached.
func (f *kubernetesFeed) identity() statefile.Cluster {
	c := statefile.Cluster{Server: f.config.Host}
	if uid := f.uid.Load(); uid != nil {
		c.UID = *uid
	}
	bundle := f.config.CAData
	if len(bundle) == 0 && f.config.CAFile != "" {
		bundle, _ = os.ReadFile(f.config.CAFile) // if it can't be read, every connection fails and reports it
	}
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return c
		}
		if block.Type == "CERTIFICATE" {
			sum := sha256.Sum256(block.Bytes)
			c.CAs = append(c.CAs, hex.EncodeToString(sum[:]))
		}
	}
}

// findUID reads the cluster's UID. If that is forbidden, the cluster is identified by its CA alone.
func (f *kubernetesFeed) findUID(ctx context.Context) {
	core, err := corev1client.NewForConfigAndClient(f.config, f.client)
	if err != nil {
		log.Warningf("kubernetes: %v", err)
		return
	}
	for delay := newDelay(); ctx.Err() == nil; pause(ctx, delay()) {
		ns, err := core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{ResourceVersion: "0"})
		switch {
		case err == nil:
			uid := string(ns.UID)
			f.uid.Store(&uid)
			f.recognised()
			return
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
			log.Debugf("kubernetes: %v: only the CA certificate distinguishes the state file from another cluster's", err)
			return
		}
	}
}
