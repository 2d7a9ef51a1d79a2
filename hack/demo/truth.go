package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleet"
)

// The expected answers are read from the cluster that has the Service.

// web returns the address of the Service web in its own cluster.
func (t *tour) web(m *fleet.Member) string {
	var svc corev1.Service
	t.do(func() error { return m.Client.Get(t.ctx, shop("web"), &svc) })
	return svc.Spec.ClusterIP
}

// importedWeb returns the ClusterSetIP of web in a cluster.
func (t *tour) importedWeb(m *fleet.Member) string {
	var imp mcsv1beta1.ServiceImport
	t.await("the ClusterSetIP of web in "+m.Name, func(ctx context.Context) error {
		if err := m.Client.Get(ctx, shop("web"), &imp); err != nil {
			return err
		}
		if len(imp.Spec.IPs) != 1 {
			return fmt.Errorf("the ServiceImport has the addresses %q", imp.Spec.IPs)
		}
		return nil
	})
	return strings.Join(imp.Spec.IPs, " ")
}

// db returns the addresses of the pods behind a cluster's headless Service db, by hostname.
func (t *tour) db(m *fleet.Member) map[string]string {
	all := map[string]string{}
	t.do(func() error {
		var list discoveryv1.EndpointSliceList
		err := m.Client.List(t.ctx, &list, client.InNamespace("shop"), client.MatchingLabels{discoveryv1.LabelServiceName: "db"})
		for i := range list.Items {
			for _, e := range list.Items[i].Endpoints {
				all[*e.Hostname] = e.Addresses[0]
			}
		}
		return err
	})
	return all
}

func shop(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }
